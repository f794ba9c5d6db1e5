"""What `import peerage` offers: the names of the contract, each of them callable."""

import asyncio
import re
from typing import get_type_hints

import pytest

import peerage
from peerage.errors import PeerageError
from peerage.panel import AskKeywords
from peerage.reports import options
from peerage.types import MAX_HTML_ROWS

ROWS = [
    {"session_id": f"s{i}", "reviewer": r, "candidate": c, "score": float((i + k) % 5 + 3)}
    for i in range(6)
    for r in "xyz"
    for k, c in enumerate("abc")
]
OPINIONS = [
    {
        "item_id": f"i{i}",
        "contributor": "ann",
        "reviewer": f"r{j}",
        "opinion": 1 if (i + j) % 3 else -1,
    }
    for i in range(6)
    for j in range(4)
]


@pytest.mark.parametrize(
    "name",
    [
        "Council",
        "Turn",
        "score",
        "audit",
        "board_models",
        "board_contributors",
        "board_reviewers",
        "board_items",
    ],
)
def test_every_public_name_is_there(name):
    assert callable(getattr(peerage, name))


def test_boards_and_audits_take_plain_rows():
    assert {row["model"] for row in peerage.board_models(ROWS, since="all").rows} == set("abc")
    assert peerage.audit(ROWS).findings
    assert [row["contributor"] for row in peerage.board_contributors(OPINIONS).rows] == ["ann"]
    assert len(peerage.board_reviewers(OPINIONS).rows) == 4


def test_a_council_asks_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seats = "".join(f'[[seat]]\nname = "{n}"\nprovider = "simulated"\n' for n in "abc")
    (tmp_path / "peerage.toml").write_text("[council]\nseed = 7\n" + seats)

    async def scene():
        async with peerage.Council.from_config("peerage.toml") as council:
            return await council.ask("Why?")

    session = asyncio.run(scene())
    assert session.status == "done"
    assert len(session.scores) == 3


SEATS = [peerage.Seat(name, provider="simulated") for name in "abc"]


def test_a_council_of_seats_in_code_is_asked_without_a_loop(tmp_path, monkeypatch):
    """Options are those of the command line; what the folder's file says is not read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peerage.toml").write_text("[council]\nno_such_key = 1\n")
    with peerage.Council(seats=SEATS, store="sqlite:///own.db", seed=7) as council:
        assert council.ask_sync("Why?").verdict.kind == "synthesis"
        assert council.ask_sync("Ship it?", verdict="binary", rule="elo").verdict.kind == "binary"
        assert council.settings.council.rule == "borda"


def test_a_council_is_asked_plainly_where_a_loop_runs(tmp_path, monkeypatch):
    """As in a notebook."""
    monkeypatch.chdir(tmp_path)

    async def cell():
        with peerage.Council(seats=SEATS, seed=7) as council:
            return council.ask_sync("Why?")

    assert asyncio.run(cell()).status == "done"


@pytest.mark.parametrize(
    "name", ["ModelBoard", "ContributorBoard", "ReviewerBoard", "ItemBoard", "Rings", "Audit"]
)
def test_keywords_are_the_fields_of_the_options(name):
    keywords, model = getattr(options, f"{name}Keywords"), getattr(options, f"{name}Options")
    given = set(get_type_hints(keywords)) - {"items", "engine", "coefficients"}
    assert given == set(model.model_fields)
    assert all(field.description for field in model.model_fields.values())


def test_a_council_takes_the_options_of_ask():
    fields = set(options.AskOptions.model_fields) - {"category"}
    assert set(get_type_hints(AskKeywords)) - {"answers", "by", "earlier", "output"} == fields


SLIPS = {  # a call for each public name, with a slip in a keyword, and the keyword that was meant
    "Council": (lambda: peerage.Council(seat=SEATS), "seats"),
    "Council.ask": (lambda: council().ask("Why?", veredict="binary"), "verdict"),
    "Council.ask_sync": (lambda: council().ask_sync("Why?", sytem="Be brief."), "system"),
    "Council.run": (lambda: council().run("Why?", aswers={}), "answers"),
    "Council.from_config": (lambda: peerage.Council.from_config(flag={}), "flags"),
    "Seat": (lambda: peerage.Seat("a", modle="m"), "model"),
    "Turn": (lambda: peerage.Turn("user", contents="Hi."), "content"),
    "ScoringOptions": (lambda: peerage.ScoringOptions(ruel="elo"), "rule"),
    "score": (lambda: peerage.score([["a", "b"]], ruel="elo"), "rule"),
    "audit": (lambda: peerage.audit(ROWS, sinse="all"), "since"),
    "board_models": (lambda: peerage.board_models(ROWS, by_categories=True), "by_category"),
    "board_contributors": (lambda: peerage.board_contributors(OPINIONS, item=[]), "items"),
    "board_reviewers": (lambda: peerage.board_reviewers(OPINIONS, user=[]), "users"),
    "board_items": (lambda: peerage.board_items(OPINIONS, literaly=True), "literal"),
    "find_rings": (lambda: peerage.find_rings(OPINIONS, egnine="duckdb"), "engine"),
}


def council():
    return peerage.Council(seats=SEATS, store="sqlite:///:memory:")


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_in_a_keyword_is_refused_when_a_function_is_called(name):
    """Also by what is awaited later: a coroutine that nobody awaits would hide it."""
    call, meant = SLIPS[name]
    with pytest.raises(PeerageError, match=f"no argument .* Did you mean '{meant}'") as refused:
        call()
    assert isinstance(refused.value, TypeError)
    assert str(refused.value).startswith(f"{name}()")


def test_every_public_name_that_is_called_has_a_test_of_slips():
    results = {"Scored", "__version__"}
    methods = {f"Council.{name}" for name in ("ask", "ask_sync", "run", "from_config")}
    assert set(SLIPS) == (set(peerage.__all__) - results) | methods


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: peerage.Council(SEATS), r"not a list of Seat\. Council\(seats=\[…\]\)"),
        (lambda: peerage.Council("peerage.toml"), r"Council\.from_config\(path\) reads a file"),
        (lambda: peerage.Council(seats=["a"]), "seats must be a list of Seat, not a list of str"),
        (lambda: peerage.Council(seats=SEATS, store=3), "store must be a store or its URL, not 3"),
        (lambda: peerage.Council.from_config(SEATS), "path must be a path, not a list of Seat"),
        (lambda: council().ask(None), "text must be a text, not None"),
        (lambda: council().ask("Why?", seats="a,b"), "seats must be a list of texts, not a str"),
        (lambda: council().ask("Why?", earlier=[("user", "Hi.")]), "earlier must be a list of Tur"),
        (lambda: council().ask("Why?", answers=["Yes."]), "answers must be a mapping"),
        (lambda: council().ask("Why?", budget_usd="2"), "budget_usd must be a number"),
        (lambda: council().ask_sync(resume=3), "resume must be a text"),
        (lambda: peerage.score([["a", "b"]], {"rule": "elo"}), "options must be ScoringOptions"),
        (lambda: peerage.score([["a", "b"]], rubric=3), "rubric must be a rubric or its name"),
        (lambda: peerage.audit(ROWS, limits={}), "limits must be AuditLimits"),
        (lambda: peerage.audit(ROWS, engine=3), "engine must be an engine or its name"),
        (lambda: peerage.board_items(OPINIONS, coefficients={}), "must be CommunityCoefficients"),
        (lambda: peerage.board_models(), "missing a required argument: 'reviews'"),
        (lambda: peerage.board_models({"reviewer": 3}), "'reviewer' is not a list of values"),
        *(
            (lambda table=table: peerage.audit(table), "table|no such file")
            for table in (None, 3, [], {}, set(), iter(ROWS), [None], "a" * 300)
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_a_sentence(call, words):
    with pytest.raises(PeerageError, match=words):
        call()


def test_a_conversation_is_carried_in_turns(tmp_path):
    earlier = [peerage.Turn("user", "Hi."), peerage.Turn("assistant", "Hello.")]
    with peerage.Council(seats=SEATS, store=f"sqlite:///{tmp_path}/s.db") as held:
        assert held.ask_sync("Why?", earlier=earlier).query.earlier == tuple(earlier)


def test_a_tie_is_not_told_as_one_winner():
    tied = peerage.score([["a", "b", "c"], ["b", "a", "c"]])
    assert repr(tied) == "Scored(3 candidates by borda, 'a', 'b' tied for first)"
    assert repr(peerage.score([["a", "b"]])) == "Scored(2 candidates by borda, 'a' first)"


def test_results_are_tables_with_a_short_name_and_escaped_html():
    evil = [{**row, "candidate": f"<b>{row['candidate']}&"} for row in ROWS]
    results = [peerage.board_models(evil), peerage.audit(evil), peerage.board_items(OPINIONS)]
    for result in results:
        assert len(repr(result)) < 80
        assert len(result.to_pandas()) == len(result.to_polars()) == len(result.rows)
        assert list(result.to_polars().columns) == list(result.table())
        assert result.document()
        assert "<b>" not in result._repr_html_()
    assert repr(results[0]) == "Board(models, 3 rows)"
    assert "&lt;b&gt;a&amp;" in results[0]._repr_html_()


def test_a_long_table_is_cut_in_html_and_says_so():
    rows = [{**OPINIONS[0], "item_id": f"i{i}"} for i in range(MAX_HTML_ROWS + 7)]
    page = peerage.board_items(rows)._repr_html_()
    assert page.count("<tr>") == MAX_HTML_ROWS + 1
    assert "and 7 more" in page


def test_the_version_is_that_of_the_package():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", peerage.__version__)
    assert "__version__" in peerage.__all__


def test_every_name_that_is_offered_is_there():
    assert sorted(peerage.__all__, key=str.lower) == sorted(
        [*peerage.HOMES, "__version__"], key=str.lower
    )
    assert all(getattr(peerage, name) is not None for name in peerage.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = peerage.nothing
