"""Judgements of Arena-Hard: each model against a baseline, in both orders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peerage.errors import InputError
from peerage.imports.foreign_records import Beginning, first_of, records
from peerage.imports.formats import Format, FormatFit, Row, formats, name_of, needs, pair_rows

FIELDS = {
    "uid or question_id": "the query",
    "model": "the candidate",
    "baseline": "its rival; gpt-4-0314 if the file (of the first version) does not name it",
    "judge": "the reviewer; the name of the folder if the file does not name it",
    "games[0].score": "the verdict with the baseline shown as A",
    "games[1].score": "the verdict with the baseline shown as B",
    "category, tstamp": "category and time",
}
ADVICE = (
    "Every model meets only the baseline: models are compared through it. The answers are"
    " in another file, so bias by length and style cannot be measured. Let several judges "
    "judge the same questions."
)
BASELINE = "gpt-4-0314"
STRENGTH = {"A>>B": 2.0, "A>B": 1.0, "A=B": 0.0, "B=A": 0.0, "B>A": -1.0, "B>>A": -2.0}


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: records with a model and its games."""
    query = "question_id" if "question_id" in beginning.record else "uid"
    return needs(beginning.record, "model", "games", query)


def read(path: Path) -> Iterator[Row]:
    """Yield two rows for each game; a game without a verdict is an abstention."""
    for place, record in records(path, ""):
        model = name_of(record.get("model"), path, place, "model")
        baseline = str(record.get("baseline") or BASELINE)
        query = str(first_of(record, ("uid", "question_id")) or place)
        if model == baseline:
            continue
        common = {
            "session_id": f"{query}: {baseline} / {model}",
            "reviewer": str(record.get("judge") or path.parent.name or "judge"),
            "query_id": query,
            "category": record.get("category"),
            "at": record.get("tstamp"),
        }
        games = record.get("games")
        for round_, game in enumerate(games if isinstance(games, list) else []):
            yield from _game({**common, "round": round_}, baseline, model, game, path, place)


def _game(
    common: Row, baseline: str, model: str, game: object, path: Path, place: str
) -> Iterator[Row]:
    """Yield the rows of one game; a strong verdict counts double in the score."""
    word = game.get("score") if isinstance(game, dict) else None
    first, second = (baseline, model) if common["round"] == 0 else (model, baseline)
    if word is None:
        yield from pair_rows(common, first, second, None, position=(0, 1))
        return
    if word not in STRENGTH:
        raise InputError(
            f"a verdict cannot be {str(word)[:80]!r}.",
            place=f"{path}, {place}",
            hint=f"Known: {', '.join(STRENGTH)}.",
        )
    margin = STRENGTH[word]
    winner = "first" if margin > 0 else "second" if margin < 0 else "tie"
    yield from pair_rows(common, first, second, winner, position=(0, 1), score=(margin, -margin))


formats.register("arena-hard")(
    Format("arena-hard", "judgements of Arena-Hard", "reviews", sniff, read, FIELDS, advice=ADVICE)
)
