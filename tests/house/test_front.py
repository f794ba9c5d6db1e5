"""What `import peerage` offers: the names of the contract, each of them callable."""

import asyncio
import inspect
import pydoc
import re

import pytest

import peerage
from peerage.errors import PeerageError
from peerage.notebooks import MAX_HTML_ROWS
from peerage.reports import options, session_options

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


OPTIONS_BY_CALL = {
    peerage.board_models: options.ModelBoardOptions,
    peerage.board_contributors: options.ContributorBoardOptions,
    peerage.board_reviewers: options.ReviewerBoardOptions,
    peerage.board_items: options.ItemBoardOptions,
    peerage.find_rings: options.RingsOptions,
    peerage.diff: options.DiffOptions,
    peerage.audit: options.AuditOptions,
    peerage.Council: session_options.CouncilOptions,
    peerage.Council.ask: session_options.SessionOptions,
    peerage.Council.ask_sync: session_options.SessionOptions,
    peerage.Council.run: session_options.SessionOptions,
    peerage.OpenedStore.sessions: session_options.SessionsOptions,
    peerage.OpenedStore.replay: session_options.ReplayOptions,
    peerage.OpenedStore.board_models: options.ModelBoardOptions,
    peerage.OpenedStore.board_contributors: options.ContributorBoardOptions,
    peerage.OpenedStore.board_reviewers: options.ReviewerBoardOptions,
    peerage.OpenedStore.board_items: options.ItemBoardOptions,
    peerage.OpenedStore.audit: options.AuditOptions,
    peerage.OpenedStore.rings: options.RingsOptions,
    peerage.OpenedStore.diff: options.DiffOptions,
}


@pytest.mark.parametrize("call", OPTIONS_BY_CALL, ids=lambda call: call.__qualname__)
def test_help_lists_every_option_with_its_default_and_meaning(call):
    parameters = inspect.signature(call).parameters
    about = pydoc.render_doc(call, renderer=pydoc.plaintext)
    assert inspect.Parameter.VAR_KEYWORD not in {one.kind for one in parameters.values()}
    for name, field in OPTIONS_BY_CALL[call].model_fields.items():
        assert parameters[name].default == field.default, name
        if name != "category" or "category =" in about:  # an argument of its own of `ask`
            assert f"{name} = {field.default!r}: {field.description}" in about


SLIPS = {  # a call for each public name, with a slip in a keyword, and the keyword that was meant
    "Council": (lambda: peerage.Council(seat=SEATS), "seats"),
    "Council.ask": (lambda: council().ask("Why?", veredict="binary"), "verdict"),
    "Council.ask_sync": (lambda: council().ask_sync("Why?", sytem="Be brief."), "system"),
    "Council.run": (lambda: council().run("Why?", aswers={}), "answers"),
    "Council.season": (lambda: council().season("s", keeep=True), "keep"),
    "Council.begun_season": (lambda: council().begun_season(begining="ab"), "beginning"),
    "Council.from_config": (lambda: peerage.Council.from_config(flag={}), "flags"),
    "Seat": (lambda: peerage.Seat("a", modle="m"), "model"),
    "Turn": (lambda: peerage.Turn("user", contents="Hi."), "content"),
    "ScoringOptions": (lambda: peerage.ScoringOptions(ruel="elo"), "rule"),
    "read": (lambda: peerage.read("x.csv", fromat="arena"), "format"),
    "score": (lambda: peerage.score([["a", "b"]], ruel="elo"), "rule"),
    "advise": (lambda: peerage.advise(ROWS, withn=0.1), "within"),
    "audit": (lambda: peerage.audit(ROWS, sinse="all"), "since"),
    "board_models": (lambda: peerage.board_models(ROWS, by_categories=True), "by_category"),
    "board_contributors": (lambda: peerage.board_contributors(OPINIONS, item=[]), "items"),
    "board_reviewers": (lambda: peerage.board_reviewers(OPINIONS, user=[]), "users"),
    "board_items": (lambda: peerage.board_items(OPINIONS, literaly=True), "literal"),
    "diff": (lambda: peerage.diff(ROWS, ROWS, own_vote="in"), "own_votes"),
    "find_rings": (lambda: peerage.find_rings(OPINIONS, egnine="duckdb"), "engine"),
    "gate": (lambda: peerage.gate(ROWS, candidte="a"), "candidate"),
    "open": (lambda: peerage.open(confg="peerage.toml"), "config"),
    "OpenedStore.sessions": (lambda: peerage.OpenedStore.sessions(None, limt=3), "limit"),
    "OpenedStore.session": (lambda: peerage.OpenedStore.session(None, idd="a"), "id"),
    "OpenedStore.board_models": (lambda: peerage.OpenedStore.board_models(None, rul="elo"), "rule"),
    "OpenedStore.audit": (lambda: peerage.OpenedStore.audit(None, reviwer="a"), "reviewer"),
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
    called = {"Council", "Seat", "Turn", "ScoringOptions"}
    called |= {name for name in peerage.__all__ if name.islower() and name != "__version__"}
    methods = {
        f"Council.{name}"
        for name in ("ask", "ask_sync", "run", "from_config", "season", "begun_season")
    }
    methods |= {f"OpenedStore.{name}" for name in ("sessions", "session", "board_models", "audit")}
    assert set(SLIPS) == called | methods


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: peerage.Council(SEATS), r"not a list of Seat\. Council\(seats=\[…\]\)"),
        (lambda: peerage.Council("peerage.toml"), r"Council\.from_config\(path\) reads a file"),
        (lambda: peerage.Council(seats=["a"]), "seats must be a list of Seat, not a list of str"),
        (lambda: peerage.Council(seats=SEATS, store=3), "store must be a store or its URL, not 3"),
        (lambda: peerage.Council.from_config(SEATS), "path must be a path, not a list of Seat"),
        (lambda: council().ask(None), "text must be a string, not None"),
        (lambda: council().ask("Why?", seats="a,b"), "seats must be a list of strings, not a str"),
        (lambda: council().ask("Why?", earlier=[("user", "Hi.")]), "earlier must be a list of Tur"),
        (lambda: council().ask("Why?", answers=["Yes."]), "answers must be a mapping"),
        (lambda: council().ask("Why?", budget_usd="2"), "budget_usd must be a number"),
        (lambda: council().ask_sync(resume=3), "resume must be a string"),
        (lambda: council().season(3), "name must be a string, not 3"),
        (lambda: council().begun_season(None), "beginning must be a string, not None"),
        (lambda: peerage.score([["a", "b"]], {"rule": "elo"}), "options must be ScoringOptions"),
        (lambda: peerage.score([["a", "b"]], rubric=3), "rubric must be a rubric or its name"),
        (lambda: peerage.audit(ROWS, limits={}), "limits must be AuditLimits"),
        (lambda: peerage.audit(ROWS, engine=3), "engine must be an engine or the name of one"),
        (lambda: peerage.board_items(OPINIONS, coefficients={}), "must be CommunityCoefficients"),
        (lambda: peerage.board_models(), "missing a required argument: 'reviews'"),
        (lambda: peerage.board_models({"reviewer": 3}), "'reviewer' is not a list of values"),
        *(
            (lambda table=table: peerage.audit(table), "table|does not exist")
            for table in (None, 3, [], {}, set(), iter(ROWS), [None], "a" * 300)
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_a_sentence(call, words):
    with pytest.raises(PeerageError, match=words):
        call()


def test_a_store_is_ranked_after_questions_from_python(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    with peerage.Council(seats=SEATS, store=url, seed=7) as council:
        asked = [council.ask_sync(f"Why {i}?") for i in range(5)]
    with peerage.open(url) as store:
        assert [row["id"] for row in store.sessions().rows] == [session.id for session in asked]
        assert store.session(asked[2].id[:8]) == asked[2]
        board = store.board_models(since="all")
        reviews = store.reviews()
        assert board.rows == peerage.board_models(reviews, since="all").rows
        assert store.audit().rows == peerage.audit(reviews).rows
        assert store.replay(asked[0].id, rule="elo").options.rule == "elo"
        assert not store.rings().rings
        assert not store.board_items()


def test_a_store_that_does_not_exist_is_not_opened(tmp_path):
    with pytest.raises(peerage.StoreError, match="there is no store"):
        peerage.open(f"sqlite:///{tmp_path}/none.db")
    assert not list(tmp_path.iterdir())


def test_a_store_is_found_by_a_configuration_file(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    (tmp_path / "own.toml").write_text(f'store = "{url}"\n')
    peerage.Council(seats=SEATS, store=url, seed=7).ask_sync("Why?")
    with peerage.open(config=tmp_path / "own.toml") as store:
        assert len(store.sessions().rows) == 1


def test_a_conversation_is_carried_in_turns(tmp_path):
    earlier = [peerage.Turn("user", "Hi."), peerage.Turn("assistant", "Hello.")]
    with peerage.Council(seats=SEATS, store=f"sqlite:///{tmp_path}/s.db") as held:
        assert held.ask_sync("Why?", earlier=earlier).query.earlier == tuple(earlier)


def test_a_tie_is_not_told_as_one_winner():
    tied = peerage.score([["a", "b", "c"], ["b", "a", "c"]])
    assert repr(tied) == "Scored(3 candidates by borda, 'a', 'b' tied for first)"
    assert repr(peerage.score([["a", "b"]])) == "Scored(2 candidates by borda, 'a' first)"


@pytest.mark.parametrize("ballots", [[["a"]], [["a", "a"]]])
def test_nobody_is_first_where_no_ballot_is_counted(ballots):
    assert repr(peerage.score(ballots)).endswith(" by borda, no ballot counted)")


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


def test_a_session_with_a_silent_reviewer_can_be_scored_again(tmp_path):
    failing = {"failure_rate": 0.5, "failure_kind": "bad_request"}
    seats = [peerage.Seat(name, provider="simulated", options=failing) for name in "abcde"]
    with peerage.Council(seats=seats, store=f"sqlite:///{tmp_path}/p.db", seed=7) as council:
        sessions = [council.ask_sync(f"What is {n}?") for n in range(8)]
    silent = [one for one in sessions if one.scores and len(one.reviews) < len(one.ballots)]
    assert silent
    for session in silent:
        counted = {one.model for one in peerage.score(session).scores}
        assert counted == {one.model for one in session.scores}
