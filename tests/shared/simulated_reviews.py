"""A season of reviews by judges who are fair, or biased by exactly so much.

A score is the quality of the answer, the reviewer's own taste for it (the same when it is
asked again), noise (not the same), and the planted biases, rounded to a mark from 1 to 10.
Lengths have nothing to do with quality unless that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.generic]
Floats = NDArray[np.float64]
Nobody: Mapping[str, float] = {}

MIDDLE, LOWEST, HIGHEST = 6.0, 1.0, 10.0
START_S = 1_750_000_000.0
WEEK_S = 604_800.0
VOCABULARY = 60  # words a style is made of


@dataclass(frozen=True, slots=True)
class SimulatedSeason:
    """How many sessions of which seats, how they were dealt and asked, and how judges differ.

    With `outsiders` the seats answer and do not review. All that is by name and not given is
    as for everyone: skill and wordiness 0, spread and noise 1, there from the start.
    """

    seats: tuple[str, ...] = ("a", "b", "c", "d", "e")
    n_sessions: int = 200
    order: str = "shuffle"  # or "balanced", "shared"
    repeats: float = 0.0  # the share of sessions that ask an earlier query again
    own_votes: bool = True
    n_weeks: int = 8
    text: bool = False
    kindred: bool = False  # whether the texts of some models are always like those of others
    reasoning: bool = False  # adds reasoning words and correctness
    quality_sd: float = 1.2
    taste_sd: float = 0.6
    noise_sd: float = 0.5
    families: Mapping[str, str] = field(default_factory=dict)
    outsiders: tuple[str, ...] = ()  # they review in place of the seats, and answer nothing
    skill: Mapping[str, float] = field(default_factory=dict)  # a candidate's mean quality
    wordiness: Mapping[str, float] = field(default_factory=dict)  # in sds of log words
    spread: Mapping[str, float] = field(default_factory=dict)  # a reviewer's points a point
    noise_by: Mapping[str, float] = field(default_factory=dict)  # times the noise
    missing: float = 0.0  # the share of reviews that were never given
    overlap: float = 1.0  # the share of sessions that all review; the others have one reviewer
    late: Mapping[str, float] = field(default_factory=dict)  # the share of sessions before entry
    tastes: float = 0.0  # lasting ones of a reviewer for a model, in its own standard deviations
    taste_log_sd: float = 0.0  # by which the judges' tastes differ in strength
    strong_quarter: float = 1.0  # times as strong are the tastes of a quarter of the judges
    taste_df: float = 0.0  # of Student's t for heavy tails; 0 for normal tastes
    taste_curve: float = 0.0  # strength of a judge's taste for models of middle or extreme skill
    bend: Mapping[str, float] = field(default_factory=dict)  # of a scale: points a squared sd
    spreads: tuple[float, float] | None = None  # drawn between these for everyone, in place of one


@dataclass(frozen=True, slots=True)
class Planted:
    """Biases in points of the score, by reviewer where judges differ; all zero is fair."""

    position: float = 0.0  # on the answer that is shown at `place`, by everyone
    position_by: Mapping[str, float] = field(default_factory=dict)
    place: int = 0  # counted from the first; −1 for the last
    harshness: Mapping[str, float] = field(default_factory=dict)
    self_preference: Mapping[str, float] = field(default_factory=dict)
    family: Mapping[str, float] = field(default_factory=dict)
    length: float = 0.0  # a standard deviation of words, by everyone
    length_by: Mapping[str, float] = field(default_factory=dict)
    length_of_quality: float = 0.0  # the correlation of words with quality: no bias at all
    anchoring: float = 0.0  # on later answers, a point of the first one's quality
    favours: Mapping[tuple[str, str], float] = field(default_factory=dict)
    drift: Mapping[str, float] = field(default_factory=dict)  # a week
    unsteady: Mapping[str, float] = field(default_factory=dict)  # noise added to each score
    twins: tuple[tuple[str, str], ...] = ()  # the second has the first one's taste and noise
    style: Mapping[str, float] = field(default_factory=dict)  # a unit of likeness to its own
    reasoning: float = 0.0  # a standard deviation of reasoning words, by everyone


def simulated_reviews(
    season: SimulatedSeason, planted: Planted, seed: int, square: NDArray[np.intp] | None = None
) -> dict[str, Column]:
    """The columns of a reviews table, a row for each reviewer and candidate of each session.

    Nobody is biased for using more of the scale than others, being noisier or having longer
    answers: that is how fair judges differ.

    `square` gives the order of the candidates for each row of a balanced deal; without it a
    cyclic square with permuted rows and symbols is drawn.
    """
    rng = np.random.default_rng(seed)
    season = replace(season, seats=season.seats + season.outsiders)
    k, n = len(season.seats), season.n_sessions
    query = _queries(rng, season)
    quality = rng.normal(0.0, season.quality_sd, (n, k))[query]
    wordy = _by_name(season, season.wordiness, 0.0)
    words = _words(rng, quality / season.quality_sd, planted.length_of_quality, query, wordy)
    quality = quality + _by_name(season, season.skill, 0.0)
    taste = rng.normal(0.0, season.taste_sd, (n, k, k))[query]  # session, reviewer, candidate
    noise = rng.normal(0.0, season.noise_sd, (n, k, k))
    position, place = _positions(rng, season, square)
    entered = _entered(season)
    if not entered.all():  # who is not there yet is not shown either
        position = np.argsort(np.argsort(position + k * ~entered[:, None, :], axis=2), axis=2)
    week = np.sort(rng.integers(0, season.n_weeks, n))
    spread, louder = (_by_name(season, by, 1.0)[:, None] for by in (season.spread, season.noise_by))
    seen = quality[:, None, :] + taste + louder * noise
    seen = seen + _lasting(season, seed, seen)
    spread = spread if season.spreads is None else _drawn_spreads(season, seed)
    score = MIDDLE + spread * seen
    for first, second in planted.twins:
        i, j = season.seats.index(first), season.seats.index(second)
        score[:, j] = score[:, i] + rng.normal(0.0, 0.1, (n, k))
    score = score + _biases(rng, season, planted, quality, words, position, week)
    columns = _columns(season, score, position, words, week, query)
    if season.order == "balanced":
        columns |= {"deal": np.full(n * k * k, "one"), "place": np.repeat(place.ravel(), k)}
    if season.text:
        columns |= _texts(rng, season, planted, columns)
    if season.reasoning:
        columns |= _reasoning(rng, season, planted, columns, quality)
    columns["score"] = np.clip(np.rint(columns["score"].astype(np.float64)), LOWEST, HIGHEST)
    kept = _kept(rng, season, entered)
    if kept.all():
        return columns
    return {name: values[kept.ravel()] for name, values in columns.items()}


def _lasting(season: SimulatedSeason, seed: int, seen: Floats) -> Floats:
    """What tastes and bent scales add to what each reviewer sees: session, reviewer, candidate."""
    sd = seen.std(axis=(0, 2), keepdims=True)
    tastes = _drawn_tastes(season, seed)
    bend = _by_name(season, season.bend, 0.0)[None, :, None]
    z = (seen - seen.mean()) / seen.std()
    added: Floats = tastes * sd + bend * (z * z - 1.0)
    return added


def _drawn_tastes(season: SimulatedSeason, seed: int) -> Floats:
    """The lasting tastes of each reviewer for each candidate, in the reviewer's own sds."""
    k = len(season.seats)
    rng = np.random.default_rng([seed, 1])
    tastes: Floats = rng.normal(0.0, season.tastes, (1, k, k))
    rng = np.random.default_rng([seed, 3])
    strength = np.exp(rng.normal(0.0, season.taste_log_sd, k))
    judges = np.flatnonzero(np.isin(season.seats, season.outsiders)) if season.outsiders else k
    strong = rng.permutation(judges)
    strength[strong[: max(1, len(strong) // 4)]] *= season.strong_quarter
    if season.taste_df:
        drawn = rng.chisquare(season.taste_df, (1, k, k)) / season.taste_df
        tastes = tastes * np.sqrt((season.taste_df - 2.0) / season.taste_df / drawn)
    if season.taste_curve:
        skill = _by_name(season, season.skill, 0.0)
        z = (skill - skill.mean()) / skill.std()
        tastes = tastes + rng.normal(0.0, season.taste_curve, (1, k, 1)) * (z * z - 1.0)
    return tastes * strength[None, :, None]


def _drawn_spreads(season: SimulatedSeason, seed: int) -> Floats:
    """A spread for each reviewer, drawn anew for each season."""
    low, high = np.log(season.spreads or (1.0, 1.0))
    rng = np.random.default_rng([seed, 2])
    return np.exp(rng.uniform(low, high, (len(season.seats), 1)))


def _by_name(season: SimulatedSeason, values: Mapping[str, float], default: float) -> Floats:
    return np.array([values.get(name, default) for name in season.seats])


def _entered(season: SimulatedSeason) -> NDArray[np.bool_]:
    """Whether each seat answers in each session."""
    since = _by_name(season, season.late, 0.0) * season.n_sessions
    entered = np.arange(season.n_sessions)[:, None] >= since
    answers: NDArray[np.bool_] = entered & ~np.isin(season.seats, season.outsiders)
    return answers


def _kept(
    rng: np.random.Generator, season: SimulatedSeason, entered: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which reviews were given: session, reviewer, candidate."""
    k, n = len(season.seats), season.n_sessions
    outside = np.isin(season.seats, season.outsiders)
    reviews = np.tile(outside, (n, 1)) if outside.any() else entered
    kept = reviews[:, :, None] & entered[:, None, :]
    if not season.own_votes:
        kept = kept & ~np.eye(k, dtype=bool)
    if season.overlap < 1.0:
        order = np.where(reviews, rng.random((n, k)), np.inf)
        alone = np.argmin(order, axis=1)[:, None] == np.arange(k)
        everyone = rng.random((n, 1)) < season.overlap
        kept = kept & (everyone | alone)[:, :, None]
    if season.missing > 0.0:
        kept = kept & (rng.random((n, k, k)) >= season.missing)
    return kept


def _queries(rng: np.random.Generator, season: SimulatedSeason) -> NDArray[np.intp]:
    """For each session the one whose query and answers it has: mostly itself."""
    query = np.arange(season.n_sessions)
    again = np.flatnonzero(rng.random(season.n_sessions) < season.repeats)
    again = again[again > 0]
    query[again] = rng.integers(0, again) if len(again) else again
    query[again] = query[query[again]]
    return query


def _words(
    rng: np.random.Generator,
    quality: Floats,
    correlation: float,
    query: NDArray[np.intp],
    wordiness: Floats,
) -> Floats:
    drawn = rng.normal(0.0, 1.0, quality.shape)[query]
    z = correlation * quality + np.sqrt(1.0 - correlation**2) * drawn + wordiness
    words: Floats = np.maximum(5.0, np.rint(200.0 * np.exp(0.4 * z)))
    return words


def _positions(
    rng: np.random.Generator, season: SimulatedSeason, square: NDArray[np.intp] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each reviewer saw each candidate in each session, and the row of the square it took."""
    k, n = len(season.seats), season.n_sessions
    place = np.arange(n)[:, None] + np.arange(k)[None, :]
    if season.order == "shared":
        orders = rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1)[:, None, :].repeat(k, axis=1)
    elif season.order == "balanced":
        if square is None:
            rows, symbols = rng.permutation(k), rng.permutation(k)
            square = symbols[(rows[:, None] + np.arange(k)[None, :]) % k]
        orders = square[place % k]
    else:
        orders = rng.permuted(np.tile(np.arange(k), (n, k, 1)), axis=2)
    return np.argsort(orders, axis=2), place


def _biases(
    rng: np.random.Generator,
    season: SimulatedSeason,
    planted: Planted,
    quality: Floats,
    words: Floats,
    position: NDArray[np.intp],
    week: NDArray[np.intp],
) -> Floats:
    """What the plants add to each score: session, reviewer, candidate."""
    seats, k = season.seats, len(season.seats)

    def by(values: Mapping[str, float]) -> Floats:
        return np.array([values.get(name, 0.0) for name in seats])[None, :, None]

    first = position == 0
    own = np.eye(k, dtype=bool)[None, :, :]
    z = ((words - words.mean()) / words.std())[:, None, :]
    favoured = position == planted.place % len(set(seats) - set(season.outsiders))
    added = favoured * (planted.position + by(planted.position_by))
    added = added + by(planted.harshness) + own * by(planted.self_preference)
    added = added + z * (planted.length + by(planted.length_by))
    added = added + by(planted.drift) * week[:, None, None]
    anchor = (first * quality[:, None, :]).sum(axis=2, keepdims=True)
    added = added + planted.anchoring * anchor * ~first
    kin = np.array(
        [
            [a != b and season.families.get(a, a) == season.families.get(b, b) for b in seats]
            for a in seats
        ]
    )
    added = added + kin[None, :, :] * by(planted.family)
    for (reviewer, candidate), points in planted.favours.items():
        added[:, seats.index(reviewer), seats.index(candidate)] += points
    added = added + rng.normal(0.0, 1.0, added.shape) * by(planted.unsteady)
    out: Floats = added
    return out


def _columns(
    season: SimulatedSeason,
    score: Floats,
    position: NDArray[np.intp],
    words: Floats,
    week: NDArray[np.intp],
    query: NDArray[np.intp],
) -> dict[str, Column]:
    k, n = len(season.seats), season.n_sessions
    seats = np.array(season.seats, dtype=object)
    ids = np.array([f"s{i:06d}" for i in range(n)], dtype=object)
    columns: dict[str, Column] = {
        "session_id": np.repeat(ids, k * k),
        "query_id": np.repeat(ids[query], k * k),
        "reviewer": np.tile(np.repeat(seats, k), n),
        "candidate": np.tile(seats, n * k),
        "score": score.ravel(),
        "position": position.ravel().astype(np.int64),
        "words": np.repeat(words[:, None, :], k, axis=1).ravel().astype(np.int64),
        "at": np.repeat(START_S + WEEK_S * week + 60.0 * np.arange(n), k * k),
    }
    if season.families:
        families = np.array([season.families.get(name, name) for name in seats], dtype=object)
        columns["family"] = np.tile(families, n * k)
    return columns


def _texts(
    rng: np.random.Generator, season: SimulatedSeason, planted: Planted, columns: dict[str, Column]
) -> dict[str, Column]:
    """Answers in each seat's words, some borrowed from another seat; and who likes its own."""
    k, n = len(season.seats), season.n_sessions
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    lexicon = ["".join(rng.choice(letters, 6)) for _ in range(VOCABULARY * k)]
    borrowed = rng.integers(0, k, (n, k))
    share = rng.random((n, k))
    mixed = _word_shares(rng, k) if season.kindred else None
    texts = np.empty((n, k), dtype=object)
    for i in range(n):
        for j in range(k):
            if mixed is not None:
                lender = rng.choice(k, 40, p=mixed[j])
            else:
                lender = np.where(rng.random(40) < share[i, j], borrowed[i, j], j)
            picks = lender * VOCABULARY + rng.integers(0, VOCABULARY, 40)
            texts[i, j] = " ".join(lexicon[pick] for pick in picks)
    like = np.zeros((n, k, k))
    for r in range(k):
        like[:, r, :] = np.where(borrowed == r, share, 0.0)
        like[:, r, r] = 0.0
    liking = np.array([planted.style.get(name, 0.0) for name in season.seats])[None, :, None]
    score = columns["score"].astype(np.float64) + (like * liking).ravel()
    return {"text": np.repeat(texts[:, None, :], k, axis=1).ravel(), "score": score}


def _word_shares(rng: np.random.Generator, k: int) -> Floats:
    """Which part of each seat's words is always from which other seat's lexicon."""
    shares: Floats = np.eye(k) / 2.0 + rng.dirichlet(np.full(k, 0.5), k) / 2.0
    return shares


def _reasoning(
    rng: np.random.Generator,
    season: SimulatedSeason,
    planted: Planted,
    columns: dict[str, Column],
    quality: Floats,
) -> dict[str, Column]:
    k, n = len(season.seats), season.n_sessions
    z = rng.normal(0.0, 1.0, (n, k))
    correct = (quality + rng.normal(0.0, 0.5, (n, k)) > 0.0).astype(np.int64)

    def spread(values: NDArray[np.generic]) -> Column:
        return np.repeat(values[:, None, :], k, axis=1).ravel()

    score = columns["score"].astype(np.float64) + planted.reasoning * spread(z).astype(np.float64)
    return {
        "reasoning_words": spread(np.rint(400.0 * np.exp(0.5 * z))),
        "correct": spread(correct),
        "score": score,
    }
