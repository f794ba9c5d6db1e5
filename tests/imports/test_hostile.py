"""What comes from elsewhere, or lies in a store already, never ends a board."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peerage import config
from peerage.engines.duckdb import DuckDB
from peerage.errors import InputError, PeerageError
from peerage.imports import take
from peerage.imports.store_folders import export, take_export
from peerage.people import next_ballot
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.reports.session_options import ReplayOptions, SessionsOptions
from peerage.reports.stored_reviews import stored_reviews, sync_mirror
from peerage.stores import Import, open_store
from tests.stored_boards import board_of_store, files_of_store

NAMES = [
    "x\", (select content from read_text('/etc/hostname')) as \"y",
    'a"b',
    "\ud800",
    "a;b--",
    "a\x00b",
    *(f"invented {i}" for i in range(2_000)),
]


def ballot(name: str, marks: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A session of two answers and one reviewer, as a ballots file has it."""
    evaluation = {"accuracy": 9, **(marks or {})}
    return {
        "session_id": name,
        "query": "Q",
        "responses": [{"model": m, "response": m} for m in "ab"],
        "label_to_model": {"Response A": "a", "Response B": "b"},
        "rankings": [
            {
                "model": "c",
                "parsed_ranking": {
                    "ranking": ["Response B", "Response A"],
                    "evaluations": {"Response A": evaluation, "Response B": evaluation},
                },
            }
        ],
        **more,
    }


def take_ballots(store: Any, path: Path, ballots: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(ballots))
    take(store, path, "sessions", lambda: 7.0)


def plain(_: Any) -> None:
    return None


def board(store: Any) -> Any:
    return board_of_store(store, plain)


def models(store: Any) -> list[str]:
    return sorted(row["model"] for row in board(store).rows)


def test_a_reviewer_names_no_column(store, tmp_path) -> None:
    take_ballots(store, tmp_path / "b.json", [ballot("s", dict.fromkeys(NAMES, 7))])
    (file,) = files_of_store(store, lambda _: config.rubric("general"))
    columns = DuckDB().open(file).to_native().columns
    marks = {name for name in columns if name.startswith("mark_")}
    assert marks == {"mark_accuracy"}
    assert models(store) == ["a", "b"]


@settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=st.lists(st.text(min_size=1, max_size=20), min_size=5, max_size=5, unique=True))
def test_any_text_may_be_a_name_or_an_id(names: list[str], tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("named")
    store = open_store(f"sqlite:///{folder}/peerage.db")
    session, first, second, reviewer, category = names
    document = ballot(session, category=category)
    document["responses"] = [{"model": m, "response": m} for m in (first, second)]
    document["label_to_model"] = {"Response A": first, "Response B": second}
    document["rankings"][0]["model"] = reviewer
    try:
        take_ballots(store, folder / "b.json", [document])
    except InputError:
        pass  # two of them are one name when they are made valid, or one is blank
    else:
        assert len(board(store).rows) == 2
    finally:
        asyncio.run(store.close())


# -- events ----------------------------------------------------------------------------------------


@pytest.fixture
def lines(store, tmp_path) -> list[dict[str, Any]]:
    """Two stored sessions as an export has them."""
    take_ballots(store, tmp_path / "b.json", [ballot("one"), ballot("two")])
    export(store, tmp_path / "out")
    text = (tmp_path / "out/sessions.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def set_in(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for step in path[:-1]:
        value = value[step]
    if new is ...:
        del value[path[-1]]
    else:
        value[path[-1]] = new


WRONG = [
    (("seq",), 7),
    (("seq",), "0"),
    (("session_id",), "other"),
    (("session_id",), 3),
    (("kind",), "invented"),
    (("kind",), None),
    (("at",), "now"),
    (("at",), float("nan")),
    (("body",), []),
    (("body",), ...),
    (("body", "query"), "Q"),
    (("body", "query", "text"), 5),
    (("body", "seats"), {}),
    (("body", "seats", 0, "roles"), "review"),
    (("body", "seats", 0, "name"), 5),
    (("body", "ordinal"), 10**400),
    (("body", "ordinal"), True),
    (("body", "law"), 7),
    (("body", "options"), 7),
    (("body", "law", "order"), ...),
    (("body", "season"), ["x"]),
]


@pytest.mark.parametrize(("where", "what"), WRONG)
def test_an_event_of_the_wrong_shape_is_refused_by_line_and_nothing_is_kept(
    where, what, lines, opened, tmp_path
) -> None:
    set_in(lines[1]["events"][0], where, what)
    path = tmp_path / "out/sessions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other = opened("other")
    with pytest.raises(InputError, match="line 2"):
        take(other, path, "sessions", lambda: 7.0)
    with pytest.raises(InputError, match="line 2"):
        take_export(other, tmp_path / "out")
    assert other.sessions() == []
    assert other.imports() == []


@pytest.mark.parametrize("index", range(2, 6))
def test_events_that_do_not_add_up_are_refused(index, lines, opened, tmp_path) -> None:
    """A review without its ballot, and the like: every body is emptied or its names changed."""
    events = lines[0]["events"]
    event = events[index] if index < len(events) else events[-1]
    event["body"] = {key: [] for key in event["body"]}
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(InputError, match="line 1"):
        take(opened("other"), path, "sessions", lambda: 7.0)


FAR = [  # where in which event a number or name stands that later commands would stumble over
    ("dealt", ("body", "ballots", 0, "order"), ["a", "a"]),
    ("dealt", ("body", "ballots", 0, "labels"), ["A", "A"]),
    ("opened", ("body", "law", "rubric"), "invented"),
    ("opened", ("body", "budget_usd"), 1e308),
    ("reviewed", ("body", "latency_ms"), -1e308),
    ("reviewed", ("body", "review"), {"scores": {"A": 1e308}}),
    ("reviewed", ("body", "review"), {"scores": {"A": 1e12}}),
    ("reviewed", ("body", "review"), {"marks": {"A": {"accuracy": 1e308}}}),
    ("reviewed", ("body", "review"), {"claimed": {"A": -1e308}}),
    ("answered", ("body", "usage"), {"tokens_in": 1, "tokens_out": 1, "cost_usd": 1e308}),
    ("finished", ("body", "cost_usd"), 1e308),
]
READING = {
    "ranking": [["A"], ["B"]],
    "scores": {},
    "marks": {},
    "claimed": {},
    "notes": {},
    "abstained": "",
    "recovered": "",
    "flags": [],
}


def with_far(line: dict[str, Any], kind: str, where: tuple[Any, ...], what: Any) -> dict[str, Any]:
    """A stored session in whose first event of a kind something is replaced."""
    event = next(one for one in line["events"] if one["kind"] == kind)
    set_in(event, where, {**READING, **what} if where[-1] == "review" else what)
    return line


@pytest.mark.parametrize(("kind", "where", "what"), FAR)
def test_a_number_or_name_that_later_commands_stumble_over_is_refused(
    kind, where, what, lines, opened, tmp_path
) -> None:
    path = tmp_path / "out/sessions.jsonl"
    changed = [lines[0], with_far(lines[1], kind, where, what)]
    path.write_text("".join(json.dumps(line) + "\n" for line in changed))
    other = opened("other")
    with pytest.raises(InputError, match=r"line 2|session two"):
        take(other, path, "sessions", lambda: 7.0)
    with pytest.raises(InputError, match=r"line 2|session two"):
        take_export(other, tmp_path / "out")
    assert other.sessions() == []


def test_a_rubric_of_the_settings_is_known_to_an_import(lines, opened, tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(with_far(lines[0], "opened", ("body", "law", "rubric"), "mine")))
    other = opened("other")
    take(other, path, "sessions", lambda: 7.0, rubrics=["mine"])
    assert [one.id for one in other.sessions()] == ["one"]


@pytest.mark.parametrize(("kind", "where", "what"), FAR)
def test_what_later_commands_stumble_over_harms_no_other_session_once_stored(
    kind, where, what, store, lines, tmp_path
) -> None:
    """Earlier versions have let it in: the boards and the other session stay as they are."""
    event = next(
        one for one in with_far(lines[1], kind, where, what)["events"] if one["kind"] == kind
    )
    db = sqlite3.connect(tmp_path / "peerage.db")
    query = "UPDATE events SET body = ? WHERE session_id = 'two' AND kind = ?"
    db.execute(query, (json.dumps(event["body"]), kind))
    db.commit()
    db.close()
    reports = Reports(config.with_flags(config.Settings(), {"store": f"sqlite:///{store.place}"}))
    vars(reports)["store"] = store
    rows = reports.board(ModelBoardOptions(since="all")).rows
    assert {row["appearances"] for row in rows} <= {1, 2}
    documents = [
        reports.board(ModelBoardOptions(since="all")).document(),
        reports.audit(AuditOptions(since="all")).document(),
        reports.sessions(SessionsOptions()).document(),
        reports.replay("one", ReplayOptions()).document(),
        next_ballot(store, "ada").document(reports.settings),
    ]
    json.dumps(documents, allow_nan=False)
    with suppress(PeerageError):  # a sentence, or a document
        json.dumps(reports.session_document("two"), allow_nan=False)


@pytest.mark.parametrize("mark", [1e308, -1e308, 1e12])
@pytest.mark.parametrize("column", ["score", "mark_accuracy", "words"])
def test_a_table_with_a_number_that_cannot_be_added_up_is_refused(
    column, mark, store, tmp_path
) -> None:
    names = ["session_id", "reviewer", "candidate", "score", "mark_accuracy", "words"]
    rows = [["s", "r", "a", 5, 5, 5], ["s", "r", "b", 6, 6, 6]]
    rows[0][names.index(column)] = mark
    text = "\n".join(",".join(map(str, row)) for row in [names, *rows])
    (tmp_path / "r.csv").write_text(text + "\n")
    with pytest.raises(InputError, match=column):
        take(store, tmp_path / "r.csv", "reviews", lambda: 7.0)
    assert store.imports() == []


@pytest.mark.parametrize("text", ["[" * 100_000, '{"events": ' + "[" * 500 + "]" * 500 + "}"])
def test_deep_json_is_refused_by_line(text, store, tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(InputError, match="line 1"):
        take(store, path, "sessions", lambda: 7.0)


# -- what is in a store already --------------------------------------------------------------------

POISON = [
    ("opened", "{}"),
    ("opened", "not json"),
    ("dealt", '{"round": 0, "ballots": [{"reviewer": 3}]}'),
    ("reviewed", '{"reviewer": "nobody", "round": 0, "text": "x"}'),
    ("answered", '{"seat": {"a": 1}, "text": "x"}'),
]


@pytest.mark.parametrize(("kind", "body"), POISON)
def test_a_session_that_cannot_be_read_is_left_out_and_named(kind, body, store, tmp_path) -> None:
    take_ballots(store, tmp_path / "b.json", [ballot("good"), ballot("bad"), ballot("fine")])
    db = sqlite3.connect(tmp_path / "peerage.db")
    db.execute("UPDATE events SET body = ? WHERE session_id = 'bad' AND kind = ?", (body, kind))
    db.commit()
    db.close()
    for _ in range(2):  # also where the mirror is there already
        made = board(store)
        assert [row["appearances"] for row in made.rows] == [2, 2]
        assert "sessions_left_out:1: bad" in made.flags
    assert stored_reviews(store, plain)[1] == ("sessions_left_out:1: bad",)


# -- folders and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["../../escaped", "/escaped", "reviews/..", "x", "", "x\x00"])
def test_a_manifest_names_no_other_folder(kind, lines, opened, tmp_path) -> None:
    place = tmp_path / "out/export.json"
    manifest = json.loads(place.read_text())
    manifest["imports"] = [{**manifest["imports"][0], "kind": kind}]
    place.write_text(json.dumps(manifest))
    other = opened("other")
    with pytest.raises(InputError, match=r"export\.json"):
        take_export(other, tmp_path / "out")
    assert other.sessions() == []


@pytest.mark.parametrize(
    ("kind", "hash_"), [("../escaped", "0" * 64), ("reviews", "../../" + "0" * 58)]
)
def test_a_store_s_own_list_of_imports_names_no_other_folder(kind, hash_, store, tmp_path) -> None:
    store.add_import(Import(kind, hash_, "x", 1, 0.0), [b"x"])
    with pytest.raises(InputError, match="not the name of an imported table"):
        export(store, tmp_path / "deep/out")
    assert not list(tmp_path.rglob("*escaped*"))


def test_a_board_comes_where_nothing_can_be_written(store, tmp_path) -> None:
    """A file in the place of the mirror's folder stops even those who may write everywhere."""
    take_ballots(store, tmp_path / "b.json", [ballot("s")])
    (tmp_path / "r.csv").write_text("session_id,reviewer,candidate,rank\nt,r,a,1\nt,r,b,2\n")
    store.mirror_folder.write_text("in the way")
    take(store, tmp_path / "r.csv", "reviews", lambda: 7.0)
    assert [row["appearances"] for row in board(store).rows] == [2, 2]
    assert store.mirror_folder.read_text() == "in the way"


def test_what_a_mirror_holds_is_read_where_the_rest_cannot_be_written(store, tmp_path) -> None:
    take_ballots(store, tmp_path / "b.json", [ballot("s")])
    mirror = sync_mirror(store, plain)
    before = sorted(path.name for path in mirror.folder.iterdir())
    (mirror.folder / "lock").unlink()
    (mirror.folder / "lock").mkdir()  # the lock cannot be taken, so nothing can be written
    take_ballots(store, tmp_path / "c.json", [ballot("t")])
    assert [row["appearances"] for row in board(store).rows] == [2, 2]
    assert sorted(path.name for path in mirror.folder.iterdir()) == before


def _boards(folder: Path, n: int, ready: Any, seen: Any) -> None:
    store = open_store(f"sqlite:///{folder}/peerage.db")
    ready.wait()
    for _ in range(n):
        made = board(store)
        seen.put([(row["model"], row["appearances"]) for row in made.rows])
    asyncio.run(store.close())


@pytest.mark.slow
def test_boards_of_several_processes_at_once_are_the_board(store, tmp_path) -> None:
    ballots = [ballot(f"s{i}") for i in range(60)]
    take_ballots(store, tmp_path / "b.json", ballots)
    (tmp_path / "r.csv").write_text("session_id,reviewer,candidate,rank\nt,r,a,1\nt,r,b,2\n")
    take(store, tmp_path / "r.csv", "reviews", lambda: 7.0)
    context = multiprocessing.get_context("spawn")
    ready, seen = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_boards, args=(tmp_path, 3, ready, seen)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = [sorted(seen.get(timeout=120)) for _ in range(9)]
    for worker in workers:
        worker.join()
    assert all(one == [("a", 61), ("b", 61)] for one in found)
    left = [path.name for path in store.mirror_folder.iterdir()]
    assert not [name for name in left if name.endswith(".partial") or name.startswith("tmp")]
