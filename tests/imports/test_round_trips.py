"""Random judgements, written as the files of other tools and read again, are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerage
from peerage.ballot_files import session_of
from peerage.imports import documents
from peerage.imports.files import format_of
from peerage.imports.formats import Repeats, recognise
from tests.shared import foreign_files as files
from tests.shared.foreign_files import Grade, Pair, Ranking, Writer

MODELS = ["gpt-4o", "claude 3", "llama/70b", "größe"]
RANKS = {"first": (1, 2), "second": (2, 1), "tie": (1, 1), None: (None, None)}
DECIDED, RARELY_TIED = ("first", "second", "tie"), ("first", "second", None)
ALL = ("first", "second", "tie", None)
N_OFTEN, N_USUAL = 100, 25
LONG = "session_id=q,reviewer=who,candidate=what,score=points"
WIDE = "session_id=q,candidate=what,reviewer=columns"

models, judges = st.sampled_from(MODELS), st.sampled_from(["j1", "judge two", "j3"])
grades = st.lists(
    st.builds(
        Grade,
        st.integers(0, 5),
        models,
        judges,
        st.one_of(st.none(), st.integers(0, 10).map(lambda n: n / 10)),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda grade: grade[:3],
)
rankings = st.lists(
    st.builds(
        Ranking,
        st.integers(0, 3),
        judges,
        st.one_of(st.just(()), st.permutations(MODELS).map(tuple)),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda one: one[:2],
)
often = settings(
    max_examples=N_OFTEN if settings().max_examples > N_USUAL else N_USUAL,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def pairs(winners: tuple[str | None, ...]) -> st.SearchStrategy[list[Pair]]:
    return st.lists(
        st.builds(Pair, st.integers(0, 5), models, models, judges, st.sampled_from(winners)).filter(
            lambda pair: pair.first != pair.second
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda pair: (pair.query, pair.judge, frozenset(pair[1:3])),
    )


# By a name for the test: the format, the file, its writer, the winners it can write, and whether
# every pair is judged again with the answers swapped.
PAIRS: dict[str, tuple[str, str, Writer, tuple[str | None, ...], bool]] = {
    "arena": ("arena", "votes.csv", files.write_arena, DECIDED, False),
    "one-hot": ("arena", "train.json", files.write_arena_one_hot, DECIDED, False),
    "alpaca-eval": ("alpaca-eval", "annotations.json", files.write_alpaca_eval, ALL, False),
    "arena-hard": ("arena-hard", "model.jsonl", files.write_arena_hard, ALL, True),
    "mt-bench": ("mt-bench", "gpt-4_pair.jsonl", files.write_mt_bench, ALL, True),
    "people": ("mt-bench", "human.json", files.write_mt_bench_votes, DECIDED, False),
    "peereval": ("peereval", "judgments.jsonl", files.write_peereval, ALL, False),
    "open-webui": ("open-webui", "feedback.json", files.write_open_webui, RARELY_TIED, False),
    "CSV": ("open-webui", "feedback.csv", files.write_open_webui_table, RARELY_TIED, False),
}
# The format, the file, its writer, and whether a file has one candidate.
GRADES: dict[str, tuple[str, str, Writer, bool]] = {
    "mt-bench": ("mt-bench", "gpt-4_single.jsonl", files.write_mt_bench_single, False),
    "inspect": ("inspect", "log.json", files.write_inspect, True),
    "archive": ("inspect", "log.eval", files.write_inspect_archive, True),
    "promptfoo": ("promptfoo", "results.json", files.write_promptfoo, False),
    "deepeval": ("deepeval", "run.json", files.write_deepeval, True),
    "lm-eval": ("lm-eval", "samples_t_2026-01-01T00-00-00.000000.jsonl", files.write_lm_eval, True),
    "langfuse": ("langfuse", "scores.json", files.write_langfuse, False),
    "mlflow": ("mlflow", "traces.jsonl", files.write_mlflow, False),
    "openai-evals": ("openai-evals", "items.json", files.write_openai_evals, False),
    "long": (LONG, "grades.csv", files.write_long_table, False),
    "wide": (WIDE, "grades.csv", files.write_wide_table, False),
}


def rows_of(path: Path, name: str) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a file that is recognised, or of a table whose columns are named."""
    is_mapped = "=" in name
    source = format_of(path, columns=name) if is_mapped else recognise(path)
    assert source.name == ("mapped" if is_mapped else name)
    if source.read is None:
        return peerage.read(path).to_pylist()
    return list(Repeats().number(source.read(path)))


def ballots_of(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the comparisons of some rows: reviewer, and each candidate with its rank and place."""
    ballots: dict[Any, list[Any]] = {}
    for row in rows:
        if row["rank"] is not None:
            ballot = (row["session_id"], row["reviewer"], row.get("round") or 0)
            ballots.setdefault(ballot, []).append(
                (row["candidate"], int(row["rank"]), row.get("position"))
            )
    return sorted((key[1], *sorted(ballot, key=str)) for key, ballot in ballots.items())


@pytest.mark.parametrize("case", PAIRS)
@often
@given(data=st.data())
def test_comparisons_are_read_as_they_were_written(case, data, tmp_path):
    name, file, write, winners, is_swapped = PAIRS[case]
    cases = data.draw(pairs(winners))
    path = tmp_path / file
    path.write_bytes(write(cases))
    rows = rows_of(path, name)
    has_places = name not in ("alpaca-eval", "open-webui")
    expected = []
    for pair in cases:
        for places in ((0, 1), (1, 0)) if is_swapped else ((0, 1),):
            both = zip(pair[1:3], RANKS[pair.winner], places, strict=True)
            ballot = [(model, rank, place if has_places else None) for model, rank, place in both]
            if pair.winner is not None:
                expected.append((pair.judge, *sorted(ballot, key=str)))
    assert ballots_of(rows) == sorted(expected)


@pytest.mark.parametrize("case", GRADES)
@often
@given(cases=grades)
def test_grades_are_read_as_they_were_written(case, cases, tmp_path):
    name, file, write, has_one_candidate = GRADES[case]
    if has_one_candidate:
        cases = [grade for grade in cases if grade.candidate == cases[0].candidate]
    folder = tmp_path / cases[0].candidate.replace("/", "__")
    folder.mkdir(exist_ok=True)
    path = folder / file
    path.write_bytes(write(cases))
    try:
        rows = list(rows_of(path, name))
    finally:
        path.unlink()
    judged = [row for row in rows if row.get("score") not in (None, "")]
    read = sorted((r["reviewer"], r["candidate"], float(r["score"])) for r in judged)
    graded = [grade for grade in cases if grade.score is not None]
    assert read == sorted((*grade[2:0:-1], grade.score) for grade in graded)
    assert len({r["session_id"] for r in judged}) == len({grade.query for grade in graded})


@often
@given(cases=rankings)
def test_rankings_of_a_council_are_read_as_they_were_written(cases, tmp_path):
    path = tmp_path / "conversations.json"
    path.write_bytes(files.write_council(cases, MODELS))
    rows = rows_of(path, "council")
    places = {name: place for place, name in enumerate(MODELS)}
    assert sorted(
        (r["session_id"], r["reviewer"], r["candidate"], r["rank"] or 0) for r in rows
    ) == sorted(
        (f"c{one.query}", one.judge, name, one.ranking.index(name) + 1 if one.ranking else 0)
        for one in cases
        for name in MODELS
    )
    assert all(row["position"] == places[row["candidate"]] for row in rows)


@often
@given(cases=rankings)
def test_ballots_of_llm_council_are_read_as_they_were_written(cases, tmp_path):
    path = tmp_path / "sessions.jsonl"
    path.write_bytes(files.write_llm_council(cases, MODELS))
    assert recognise(path).name == "sessions"
    read = []
    for place, load in documents(path):
        session = session_of(load(), place)
        for ballot, review in zip(session.ballots, session.reviews, strict=True):
            author_by_label = {slot.label: slot.author for slot in ballot.slots}
            order = tuple(author_by_label[label] for tier in review.ranking for label in tier)
            read.append((session.id, ballot.reviewer, order))
    assert sorted(read) == sorted((f"c{one.query}", *one[1:]) for one in cases)


@often
@given(
    opinions=st.dictionaries(
        st.tuples(st.integers(0, 5), judges), st.sampled_from(["positive", "negative"]), min_size=1
    )
)
def test_opinions_of_peerbench_are_read_as_they_were_written(opinions, tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_bytes(
        files.table(
            [
                {"id": n, "user_id": who, "prompt_id": f"p{item}", "opinion": opinion}
                for n, ((item, who), opinion) in enumerate(opinions.items())
            ]
        )
    )
    rows = recognise(path).read(path)
    assert {(r["item_id"], r["reviewer"]): r["opinion"] for r in rows} == {
        (f"p{item}", who): opinion for (item, who), opinion in opinions.items()
    }
