"""`ask`, `run`, `sessions`, `show`, `replay` and `doctor`, as their user runs them."""

import json
import re
import signal
import urllib.request

import pytest

from tests.doors.test_run_command import n_events
from tests.shared.waiting import wait_until

SIMULATED = [
    {"name": name, "provider": "simulated", "options": {"quality": 8.0 - i}}
    for i, name in enumerate("abcd")
]


def mock_seats(url, n=4, **more):
    return [
        {"name": f"seat-{i}", "model": f"mock-{i}", "base_url": url, "timeout_s": 60.0, **more}
        for i in range(n)
    ]


def prompts(folder, n):
    rows = [{"id": f"q{i}", "query": f"question {i}", "category": f"c{i % 2}"} for i in range(n)]
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def document(done, code=0):
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_ask_answers_reviews_and_concludes(peerage, panel):
    panel(SIMULATED, seed=7)
    got = document(peerage("ask", "Why?", "--json"))
    assert got["status"] == "done"
    assert got["verdict"]["kind"] == "synthesis"
    assert len(got["scores"]) == 4
    assert got["cost"]["total_usd"] == 0.0
    assert set(got["reviewer_position_mapping"]) == set("abcd")


def test_ask_in_plain_output_shows_the_verdict_and_the_ranking(peerage, panel):
    panel(SIMULATED, seed=7)
    done = peerage("ask", "-", stdin="Why?")
    assert done.returncode == 0
    assert "synthesis by a" in done.stdout
    assert "votes" in done.stdout
    assert "a answered" in done.stderr


def test_a_binary_verdict_gates_by_its_exit_code(peerage, panel):
    good = [{**seat, "options": {"quality": 9.0}} for seat in SIMULATED]
    bad = [{**seat, "options": {"quality": 1.0}} for seat in SIMULATED]
    panel(good, seed=7)
    assert peerage("ask", "Ship it?", "--verdict", "binary").returncode == 0
    panel(bad, seed=7)
    assert peerage("ask", "Ship it?", "--verdict", "binary").returncode == 1


def test_a_stored_session_is_listed_shown_and_scored_again(peerage, panel):
    panel(SIMULATED, seed=7)
    asked = document(peerage("ask", "Why?", "--json"))
    (listed,) = document(peerage("sessions", "--json"))["sessions"]
    assert listed["id"] == asked["id"]
    shown = document(peerage("show", asked["id"][:6], "--json"))
    assert shown["scores"] == asked["scores"]
    again = document(peerage("replay", asked["id"], "--rule", "bradley_terry", "--json"))
    assert again["rule"] == "bradley_terry"
    assert all(row["value"] is not None for row in again["scores"])


def test_a_session_is_shown_by_the_rule_it_was_concluded_from(peerage, panel):
    """Whatever the configuration says now; another rule is a replay that names it."""
    panel(SIMULATED, seed=7)
    asked = document(peerage("ask", "Why?", "--rule", "elo", "--own-votes", "in", "--json"))
    shown = document(peerage("show", asked["id"], "--json"))
    assert (shown["rule"], shown["own_votes"]) == ("elo", "in")
    assert shown["scores"] == asked["scores"]
    assert " elo " in peerage("show", asked["id"]).stdout
    assert document(peerage("replay", asked["id"], "--json"))["rule"] == "elo"
    replayed = document(peerage("replay", asked["id"], "--rule", "borda", "--json"))
    assert replayed["rule"] == "borda"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ask", ""), "question is empty"),
        (("ask", "x" * 100, "--rule", "dice"), "no rule 'dice'"),
        (("show", "ffff"), "no session"),
        (("run", "none.jsonl"), "does not exist"),
        (("ask", "Why?", "--store", "nowhere"), "must be a URL"),
        (("ask", "Why?", "--verdict", "maybe"), "verdict"),
    ],
)
def test_a_mistake_is_said_in_one_paragraph(peerage, panel, arguments, says):
    panel(SIMULATED)
    done = peerage(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_question_of_a_megabyte_and_more_is_refused(peerage, panel):
    panel(SIMULATED)
    done = peerage("ask", "-", stdin="x" * 1_000_001)
    assert done.returncode == 2
    assert "1,000,001 characters" in done.stderr


def test_doctor_names_what_is_wrong_and_the_fix(peerage, panel, mock_server):
    url = mock_server()
    dead = {"name": "dead", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    keyless = {"name": "keyless", "model": "m", "base_url": url, "api_key_env": "NO_SUCH_KEY"}
    panel([*mock_seats(url, 2), dead, keyless])
    checks = {c["what"]: c for c in document(peerage("doctor", "--json"), 1)["checks"]}
    assert checks["seat seat-0"]["ok"]
    assert checks["seat dead"]["finding"].startswith("connection")
    assert "NO_SUCH_KEY" in checks["seat keyless"]["finding"] + checks["seat keyless"]["fix"]
    assert checks["seat dead"]["fix"]


def stats(url):
    place = url.removesuffix("/v1") + "/stats"
    with urllib.request.urlopen(place, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


@pytest.mark.slow
def test_a_season_survives_a_server_that_fails_now_and_then(peerage, panel, mock_server, tmp_path):
    """5% are told to wait, 2% fail and 1% hang: every session ends, and no failure is scored."""
    url = mock_server("--fault", "429=0.05", "--fault", "500=0.02", "--fault", "hang=0.01")
    panel(mock_seats(url, timeout_s=3.0), seed=7)  # which only calls that hang should take
    done = peerage("run", prompts(tmp_path, 200), "--concurrency", "32", "--json")
    got = document(done, done.returncode)
    assert done.returncode in (0, 3)
    assert got["finished"] == 200
    listed = document(peerage("sessions", "--limit", "500", "--json"))["sessions"]
    assert {entry["status"] for entry in listed} <= {"done", "no_quorum"}
    for entry in listed[:20]:
        shown = document(peerage("show", entry["id"], "--json"))
        answered = {response["model"] for response in shown["responses"]}
        assert {row["model"] for row in shown.get("scores", [])} <= answered


@pytest.mark.slow
def test_a_season_that_is_killed_goes_on_and_ends_the_same(
    peerage, started, panel, mock_server, tmp_path
):
    """Stored calls are not repeated, and the board is that of a season nobody killed."""
    url = mock_server("--latency-ms", "20")
    panel(mock_seats(url), seed=7)
    file = prompts(tmp_path, 120)
    running = started("run", file, "--concurrency", "4", "--quiet")
    wait_until(lambda: stats(url)["n_calls"] >= 300, running)
    running.kill()
    running.communicate()
    before = stats(url)["n_calls"]
    done = peerage("run", file, "--concurrency", "4", "--json")
    got = document(done)
    assert got["finished"] == 120
    repeated = stats(url)["n_answered_again"]
    assert repeated <= 4 * 4
    assert before + got["calls"] <= 120 * 9 + 4 * 4
    board = ("board", "models", "--since", "all", "--json")
    cut = document(peerage(*board))["rows"]
    whole = peerage("run", file, "--concurrency", "4", "--json", "--store", "sqlite:///whole.db")
    assert whole.returncode == 0
    assert document(peerage(*board, "--store", "sqlite:///whole.db"))["rows"] == cut


def test_a_season_stops_when_its_budget_is_reached(peerage, panel, tmp_path):
    panel([{**seat, "price_in": 1.0, "price_out": 5.0} for seat in SIMULATED], seed=7)
    file = prompts(tmp_path, 30)
    done = peerage("run", file, "--budget-usd", "0.15", "--concurrency", "2", "--json")
    got = document(done, 4)
    assert got["out_of_budget"]
    assert 0 < got["cost_usd"] <= 0.15
    assert document(peerage("run", file, "--json"))["finished"] == 30


@pytest.mark.slow
def test_an_interrupted_season_finishes_what_is_in_flight(peerage, started, panel, tmp_path):
    slow = [{**seat, "options": {"quality": 5.0, "latency_ms": 50.0}} for seat in SIMULATED]
    panel(slow, seed=7)
    file = prompts(tmp_path, 100)
    running = started("run", file, "--concurrency", "4", "--json")
    wait_until(lambda: n_events(tmp_path) >= 100, running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    got = json.loads(out)
    assert running.returncode == 130, err
    assert got["interrupted"]
    assert 0 < got["finished"] < 100
    listed = document(peerage("sessions", "--limit", "500", "--json"))["sessions"]
    assert {entry["status"] for entry in listed} == {"done"}
    assert document(peerage("run", file, "--json"))["finished"] == 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "said", "n_calls"),
    [
        ("hang,ok", {"seat-1 answered", "seat-2 answered", "seat-3 answered"}, 4),
        ("ok,hang,ok", {"seat-1 reviewed", "seat-2 reviewed", "seat-3 reviewed"}, 8),
        ("ok,ok,hang,ok", {f"seat-{i} reviewed" for i in range(4)}, 9),
    ],
    ids=["answer", "review", "conclude"],
)
def test_ctrl_c_at_any_stage_leaves_the_way_to_go_on_and_nothing_else(
    peerage, started, panel, mock_server, tmp_path, faults, said, n_calls
):
    url = mock_server()
    seats = mock_seats(url)
    seats[0]["model"] = f"mock-0?do={faults}"
    panel(seats, seed=7)
    told = tmp_path / "told.txt"
    with told.open("w") as stderr:
        running = started("ask", "Why?", stderr=stderr)

    def is_said():
        lines = told.read_text().splitlines()
        return all(any(line.startswith(one) for line in lines) for one in said)

    wait_until(is_said, running)
    wait_until(lambda: stats(url)["n_calls"] >= n_calls, running)  # the call that hangs has arrived
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    err = told.read_text()
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    (id_,) = re.findall(r"--resume (\w+)", err)
    got = document(peerage("ask", "--resume", id_, "--json"))
    assert got["status"] == "done"
    assert got["failures"] == []


def test_doctor_names_the_variable_that_is_missing_or_holds_a_wrong_key(
    peerage, panel, mock_server
):
    url = mock_server()
    openai = {"name": "gpt", "model": "gpt-5-mini"}
    groq = {"name": "groq", "model": "m", "base_url": "https://api.groq.com/openai/v1"}
    named = {**groq, "name": "named", "api_key_env": "TEAM_GROQ_KEY"}
    wrong = {"name": "w", "model": "m?do=401", "base_url": url, "api_key_env": "WRONG_KEY"}
    panel([openai, groq, named, wrong])
    done = peerage("doctor", "--json", WRONG_KEY="sk-not-a-real-key-1234567890")
    fixes = {c["what"]: c["fix"] for c in document(done, 1)["checks"]}
    assert "OPENAI_API_KEY" in fixes["seat gpt"]
    assert "GROQ_API_KEY" in fixes["seat groq"]
    assert "TEAM_GROQ_KEY" in fixes["seat named"]
    assert "WRONG_KEY" in fixes["seat w"]
    assert "not accepted" in fixes["seat w"]


def test_doctor_says_what_the_council_could_not_begin_with(peerage, panel):
    panel([{"name": name, "provider": "simulated"} for name in "abc"], rule="dice")
    checks = {c["what"]: c for c in document(peerage("doctor", "--json"), 1)["checks"]}
    assert "there is no rule 'dice'" in checks["panel"]["finding"]
    assert "borda" in checks["panel"]["fix"]


def test_doctor_counts_the_call_of_a_chair_only_for_a_tie(peerage, panel):
    panel(SIMULATED[:3], verdict="tie_breaker")
    checks = {c["what"]: c for c in document(peerage("doctor", "--json"))["checks"]}
    assert "about 6 calls, or 7 with a tie" in checks["panel"]["finding"]


def test_decide_votes_on_typed_questions_and_the_audit_tells_of_the_votes(peerage, panel):
    panel(SIMULATED, seed=7)
    questions = [
        *("--predicate", "urgent=It is urgent."),
        *("--choice", "Who answers? | billing | sales"),
        *("--score", "anger=How angry? | calm | cross | furious"),
    ]
    got = document(peerage("decide", "-", *questions, "--json", stdin="Charged twice!"))
    answers = {one["name"]: one for one in got["verdict"]["answers"]}
    assert list(answers) == ["urgent", "question 2", "anger"]
    assert [len(one["probabilities"]) for one in answers.values()] == [2, 2, 3]
    assert set(answers["urgent"]["votes"]) == set("abcd")
    bare = peerage("show", got["id"], "--quiet").stdout.splitlines()
    assert [line.partition(" = ")[0] for line in bare] == ["urgent", "question 2", "anger"]
    for options in ([], ["--session", got["id"]]):
        audit = document(peerage("audit", *options, "--json"))
        assert {one["subject"] for one in audit["findings"]} == set("abcd")
        assert {one["status"] for one in audit["findings"]} == {"too_few", "not_identifiable"}


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "no question to decide"),
        (["--choice", "Who? | a"], "fewer than two options"),
        (["--choice", "Who? | a | a"], "a different value"),
        (["--predicate", "x=It is.", "--predicate", "x=It was."], "is empty or used twice"),
        (["--predicate", " "], "instructions are empty"),
    ],
)
def test_decide_refuses_questions_that_cannot_be_voted_on(peerage, panel, questions, words):
    panel(SIMULATED, seed=7)
    done = peerage("decide", "Charged twice!", *questions)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
