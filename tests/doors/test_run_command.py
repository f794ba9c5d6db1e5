"""`peerage run` as its user runs it: estimated, grown, shared, interrupted, judged anew."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace

import pytest

from peerage.hosted_seasons import KIND, find_plan, rename_season, season_names
from peerage.stores import open_store
from tests.shared.waiting import wait_until

N = 6
RUN = ("run", "prompts.jsonl", "--concurrency", "2")


def seats(names, **more):
    return [{"name": name, "provider": "simulated", **more} for name in names]


def mock_seats(url, names):
    return [{"name": name, "model": f"mock-{name}", "base_url": url} for name in names]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [{"id": i, "query": f"question {i}"} for i in range(N)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def document(done, code=0):
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def n_calls(url):
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats", timeout=60) as reply:  # noqa: S310
        return json.load(reply)["n_calls"]


def n_events(folder):
    try:
        with sqlite3.connect(f"file:{folder}/peerage.db?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM events").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_an_estimate_calls_nobody_writes_nothing_and_names_who_has_no_price(
    peerage, panel, mock_server, file, tmp_path
):
    url = mock_server()
    priced = {"price_in": 3.0, "price_out": 15.0}
    seats = [*mock_seats(url, "ab"), {**mock_seats(url, "c")[0], **priced}]
    panel(seats, verdict="none", second_chance=False)
    once = document(peerage("run", file, "--dry-run", "--json"))
    panel(seats, verdict="none")
    got = document(peerage("run", file, "--dry-run", "--json"))
    assert once["cost_usd"] == got["cost_usd"]  # as a rule each vote is asked for once
    assert once["at_most_usd"] < got["at_most_usd"]  # and at most twice
    assert got["calls"] == 6 * N
    assert got["unpriced_calls"] == 4 * N
    by_seat = {seat["seat"]: seat for seat in got["seats"]}
    assert by_seat["a"]["cost_usd"] is None
    assert 0 < by_seat["c"]["cost_usd"] == got["cost_usd"] < got["at_most_usd"]
    assert n_calls(url) == 0
    assert not list(tmp_path.glob("peerage.db*"))
    said = peerage("run", file, "--dry-run").stdout
    assert f"Estimate: at least ${got['cost_usd']:.4f} (24 calls unpriced)" in said


@pytest.mark.slow
def test_a_seat_that_joins_costs_what_is_missing_also_after_a_kill(
    peerage, started, panel, mock_server, file, tmp_path
):
    url = mock_server("--latency-ms", "30")
    panel(mock_seats(url, "abc"), seed=7, verdict="none")
    document(peerage("run", file, "--json"))
    before = n_calls(url)
    panel(mock_seats(url, "abcd"), seed=7, verdict="none")
    assert document(peerage("run", file, "--dry-run", "--json"))["calls"] == 5 * N
    n_before = n_events(tmp_path)
    running = started(*RUN)
    wait_until(lambda: n_events(tmp_path) >= n_before + 8, running)
    running.kill()
    running.communicate()
    got = document(peerage("run", file, "--json"))
    assert got["finished"] == N
    assert n_calls(url) - before <= 5 * N + 2 * 4  # what was in flight may be asked again
    (kinds,) = peerage_rows(tmp_path, "SELECT count(*) FROM events WHERE kind = 'extended'")
    assert kinds == (N,)
    board = document(peerage("board", "models", "--json"))
    assert {row["appearances"] for row in board["rows"]} == {N}
    assert {row["total_votes"] for row in board["rows"]} == {3 * N}


def peerage_rows(folder, query):
    with sqlite3.connect(f"file:{folder}/peerage.db?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


@pytest.mark.slow
def test_two_runs_at_once_share_the_season_and_both_end_well(started, panel, file):
    panel(seats("abc", options={"latency_ms": 100}), seed=7, verdict="none")
    both = [started(*RUN, "--json") for _ in range(2)]
    said = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert [err for _, err in said if "rror" in err or "Traceback" in err] == []
    got = [json.loads(out) for out, _ in said]
    assert [one["finished"] for one in got] == [N, N]
    assert sum(one["calls"] for one in got) == 6 * N


@pytest.mark.slow
@pytest.mark.parametrize("n_interrupts", [1, 2])
def test_an_interrupted_run_says_how_to_go_on_and_loses_nothing(
    peerage, started, panel, file, tmp_path, n_interrupts
):
    panel(seats("abc", options={"latency_ms": 300}), seed=7, verdict="none")
    running = started(*RUN)
    wait_until(lambda: n_events(tmp_path) >= 9, running)
    for _ in range(n_interrupts):
        running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "To continue: the same command." in out
    assert "Traceback" not in err
    replies = "SELECT count(*) FROM events WHERE kind IN ('answered', 'reviewed')"
    ((kept,),) = peerage_rows(tmp_path, replies)
    got = document(peerage("run", file, "--json"))
    assert (got["finished"], got["calls"]) == (N, 6 * N - kept)


def test_an_interruption_while_it_loads_is_silent(peerage):
    hook = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from peerage.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", hook],
        capture_output=True,
        text=True,
        env=peerage.environ,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
def test_another_panel_judges_what_a_season_answered(peerage, panel, file, tmp_path):
    panel(seats("abc"), seed=7, verdict="none")
    season = document(peerage("run", file, "--json"))["season"]
    panel(seats("xyz", roles=["review"]), seed=7, verdict="none")
    got = document(peerage("run", file, "--reuse-answers", season[:8], "--json"))
    assert got["calls"] == 3 * N
    (tmp_path / "more.jsonl").write_text(file.read_text() + '\n{"id": 99, "query": "new?"}')
    done = peerage("run", "more.jsonl", "--reuse-answers", season)
    assert done.returncode == 3
    assert "1 of 7 rows have no answers" in done.stderr
    refused = peerage("run", file, "--reuse-answers", "nope")
    assert refused.returncode == 2
    assert season in refused.stderr
    asked = peerage("run", file)
    assert (asked.returncode, "no seat has the role answer" in asked.stderr) == (2, True)


def test_a_season_that_began_anew_goes_on_by_the_command_it_names(peerage, panel, file):
    panel(seats("abc", price_in=1.0, price_out=5.0), seed=7, verdict="none")
    stopped = peerage("run", file, "--no-resume", "--budget-usd", "0.06", "--concurrency", "2")
    assert stopped.returncode == 4
    assert "the same command" not in stopped.stdout
    (line,) = [text for text in stopped.stdout.splitlines() if text.startswith("To continue: ")]
    command, _, rest = line.removeprefix("To continue: peerage ").partition(", with --budget-usd ")
    least = rest.removeprefix("above $").partition(". The ")[0]
    assert float(least) > 0.06
    n_finished = int(stopped.stdout.partition(" of ")[0].split()[-1])
    one_more = peerage(*command.split(), "--budget-usd", least, "--json")
    assert json.loads(one_more.stdout)["finished"] > n_finished
    gone_on = document(peerage(*command.split(), "--budget-usd", "5", "--json"))
    assert gone_on["season"] == command.split()[-1]
    assert gone_on["finished"] == N
    assert gone_on["reused"] >= 1
    both = peerage("run", file, "--no-resume", "--season", gone_on["season"])
    assert (both.returncode, "Omit one of them." in both.stderr) == (2, True)


def test_a_season_of_the_command_line_has_the_name_of_its_file(peerage, panel, file, tmp_path):
    panel(seats("abc"))
    season = document(peerage("run", file.name, "--json"))["season"]
    store = open_store(f"sqlite:///{tmp_path}/peerage.db")
    names = season_names(store, [season])
    before = find_plan(store, season)
    renamed = rename_season(store, season, "Autumn", "Ada")
    assert find_plan(store, season) == renamed
    assert replace(renamed, options=before.options) == before
    assert not store.documents(KIND)  # only its name is kept: its state follows from its sessions
    asyncio.run(store.close())
    assert names == {season: "prompts.jsonl"}


def test_a_season_that_is_whole_does_not_say_how_to_go_on(peerage, panel, file):
    panel(seats("abc"), seed=7, verdict="none")
    assert "To continue" not in peerage("run", file, "--no-resume").stdout


def test_a_season_counts_its_earlier_runs_in_its_budget(peerage, panel, file):
    panel(seats("abc", price_in=1.0, price_out=5.0), seed=7, verdict="none")
    run = ("run", file, "--budget-usd", "0.05", "--concurrency", "1", "--json")
    first = document(peerage(*run), 4)
    second = document(peerage(*run), 4)
    assert second["earlier_cost_usd"] == pytest.approx(first["cost_usd"])
    assert second["earlier_cost_usd"] + second["cost_usd"] <= 0.05
    nothing = peerage("run", file, "--budget-usd", "0", "--no-resume")
    assert nothing.returncode == 4
    assert "$0.0000 of the budget is left" in nothing.stdout
    assert "Traceback" not in nothing.stderr
