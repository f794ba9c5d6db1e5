"""A season stops as soon as it knows, looking at its sessions in the order of its prompts."""

from __future__ import annotations

from typing import Any

import pytest

from peerage.errors import UsageError
from peerage.reports import stopping
from peerage.reports.options import BarOptions
from peerage.reports.stopping import SeasonWatch, StoppingRule, check_until, count_by_query


def records(
    session: int, scores: dict[str, float], query: str | None = None
) -> list[dict[str, Any]]:
    return [
        {
            "session_id": f"s{session}",
            "reviewer": judge,
            "candidate": name,
            "query_id": query or f"q{session}",
            "category": None,
            "rank": None,
            "score": score,
            "round": 0,
        }
        for judge in "xyz"
        for name, score in scores.items()
    ]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A watch over sessions that are written down as rows, not as logs."""

    def make(until: str = "decided", n_by_query: Any = None, **bar: Any) -> SeasonWatch:
        sides = {"base": "old", "candidate": "new", **bar}
        return SeasonWatch(
            StoppingRule(until, BarOptions(**sides)), n_by_query or {}, lambda _: None
        )

    monkeypatch.setattr(stopping, "review_rows", lambda rows, _: rows)
    monkeypatch.setattr(stopping, "opening_of", lambda _: None)
    return make


def test_it_knows_as_soon_as_the_evidence_suffices(watch: Any) -> None:
    one = watch()
    n = 0
    while not one.is_known:
        one.add(n, records(n, {"old": 9.0, "new": 2.0, "other": 5.0}))
        n += 1
    assert one.verdict.verdict == "worse"
    assert (one.verdict.after, one.n_queries) == (n, n)
    assert one.sentence == "new against old: worse"


def test_sessions_after_an_unfinished_one_do_not_count_yet(watch: Any) -> None:
    one = watch()
    for n in range(1, 60):
        one.add(n, records(n, {"old": 9.0, "new": 2.0, "other": 5.0}))
    assert (one.n_queries, one.is_known) == (0, False)
    one.add(0, [])  # it has no reviews
    assert one.is_known


def test_a_query_counts_when_all_its_repeats_are_there(watch: Any) -> None:
    one = watch(n_by_query=count_by_query(["q", "q", "other"]))
    one.add(0, records(0, {"old": 9.0, "new": 2.0, "other": 5.0}, "q"))
    assert one.n_queries == 0
    one.add(1, records(1, {"old": 9.0, "new": 2.0, "other": 5.0}, "q"))
    assert one.n_queries == 1


@pytest.mark.parametrize(("until", "top"), [("best", ("a",)), ("top:2", ("a", "b"))])
def test_the_best_are_known_when_each_beats_every_other(
    watch: Any, until: str, top: tuple[str, ...]
) -> None:
    one = watch(until)
    for n in range(200):
        if one.is_known:
            break
        flip = 3.0 * (n % 4 == 0)
        one.add(n, records(n, {"a": 9.0, "b": 7.0, "c": 4.0 + flip / 2, "d": 3.0 + flip}))
    assert tuple(sorted(one.top)) == top
    assert one.n_queries > 5


def test_equal_models_at_the_top_are_never_told_apart(watch: Any) -> None:
    one = watch("best")
    for n in range(120):
        one.add(n, records(n, {"a": 5.0 + n % 2, "b": 5.0 + (n + 1) % 2, "c": 1.0}))
    assert not one.is_known


@pytest.mark.parametrize(
    ("until", "bar", "words"),
    [
        ("never", {}, "--until cannot be 'never'."),
        ("top:0", {}, "--until cannot be 'top:0'."),
        ("decided", {}, "--until decided needs two models."),
        ("decided", {"base": "a", "candidate": "a"}, "the base and the candidate are both 'a'."),
        (
            "decided",
            {"base": "a", "candidate": "b", "metric": "dimension"},
            "name the dimensions beforehand.",
        ),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(
    until: str, bar: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        check_until(until, BarOptions(**bar))
