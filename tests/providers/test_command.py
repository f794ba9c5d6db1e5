"""Seats that run a command: their prompt, environment, limits, failures and end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.errors import ConfigError
from peerage.panel import Council
from peerage.providers import Call, Reply
from peerage.providers.calling import Caller, check_ready
from peerage.providers.command import INSIDE, guard, plain_text
from peerage.types import Failure, Query, Seat, Turn
from tests.shared.waiting import wait_until

SHELL = ("sh", "-c")


def outcome(*command: str, prompt: str = "Why?", **fields: object) -> Reply | Failure:
    """Return the outcome of one call of a seat with this command."""
    seat = Seat("s", provider="command", command=command, **fields)  # type: ignore[arg-type]
    call = Call(seat, "answer", prompt, "key", Query(prompt), may_retry=False)

    async def scene() -> Reply | Failure:
        async with Caller([seat]) as caller:
            return await caller.call(call)

    return asyncio.run(scene())


def text_of(*command: str, prompt: str = "Why?", **fields: object) -> str:
    reply = outcome(*command, prompt=prompt, **fields)
    assert isinstance(reply, Reply), reply
    return reply.text


def failure_of(*command: str, **fields: object) -> Failure:
    failed = outcome(*command, **fields)
    assert isinstance(failed, Failure), failed
    return failed


def lives(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextmanager
def ends(*pids: int) -> Iterator[None]:
    """Check that processes end soon after the block."""
    assert all(map(lives, pids))
    yield
    wait_until(lambda: not any(map(lives, pids)), limit_s=20)


def whole_text(file: Path) -> str:
    """Return the text of a file that another process writes, "" until it is whole."""
    text = file.read_text() if file.exists() else ""
    return text if text.endswith("\n") else ""


# -- the prompt and the reply --------------------------------------------------------------------


def test_the_prompt_goes_in_and_the_output_is_the_reply():
    long = "Is 2 + 2 = 4? " + "é" * 200_000
    assert text_of("cat", prompt=long) == long
    reply = outcome("cat")
    assert isinstance(reply, Reply)
    assert reply.usage.cost_usd is None
    assert (reply.usage.tokens_in, reply.usage.tokens_out) == (None, None)


def test_a_command_that_reads_no_prompt_may_reply():
    assert text_of("echo", "yes", prompt="x" * 500_000) == "yes"


def test_system_text_and_earlier_turns_are_titled():
    seat = Seat("s", provider="command", command=("cat",), system="Be brief.")
    earlier = (Turn("user", "Hello."), Turn("assistant", "Hi."))
    call = Call(seat, "answer", "Why?", "key", Query("Why?", earlier=earlier))

    async def scene() -> Reply | Failure:
        async with Caller([seat]) as caller:
            return await caller.call(call)

    reply = asyncio.run(scene())
    assert isinstance(reply, Reply)
    assert reply.text.split("\n\n") == [
        *("# Instructions", "Be brief.", "# User", "Hello.", "# Assistant", "Hi."),
        *("# User", "Why?"),
    ]


def test_a_price_per_call_is_its_cost_and_zero_prices_make_it_free():
    priced = outcome("cat", price_call=0.02)
    free = outcome("cat", price_in=0.0, price_out=0.0)
    assert isinstance(priced, Reply)
    assert isinstance(free, Reply)
    assert (priced.usage.cost_usd, free.usage.cost_usd) == (0.02, 0.0)


def test_terminal_controls_are_removed():
    printed = r"printf '\033[31mred\033[0m\r\n 10%%\r 20%%\rdone\033]0;title\007\n\033[2K!\n'"
    assert text_of(*SHELL, printed) == "red\ndone\n!"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t")))
def test_text_without_controls_is_not_changed(text: str):
    assert plain_text(text) == text


def test_it_runs_in_an_empty_folder_that_is_gone_afterwards():
    listing, folder = text_of(*SHELL, "ls -A | wc -l; pwd; touch left-behind").split("\n")
    assert listing.strip() == "0"
    assert Path(folder) != Path.cwd()
    assert not Path(folder).exists()


def test_it_gets_only_the_usual_variables_and_the_listed_ones(monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", "sk-other-0123456789")
    monkeypatch.setenv("OWN_API_KEY", "sk-own-0123456789")
    printed = text_of("env", pass_env=("OWN_API_KEY", "NOT_SET"))
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert {"PATH", "OWN_API_KEY", "NO_COLOR"} <= names
    assert "OTHER_API_KEY" not in names
    assert "NOT_SET" not in names
    assert "sk-own" not in printed  # a passed key never comes back


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("true", "refused", "printed nothing"),
        ("printf '\\033[0m \\n'", "refused", "printed nothing"),
        ("echo no >&2; exit 3", "provider", "exit code 3: no"),
        ("echo 'Error: 429 Too Many Requests' >&2; exit 1", "rate_limited", "429"),
        ("echo 'Please log in first'; exit 1", "unauthorized", "log in"),
        ("echo 'connection refused' >&2; exit 1", "connection", "refused"),
        ("printf '\\377\\376'", "bad_encoding", "UTF-8"),
        ("kill -9 $$", "provider", "exit code 137"),
        ("yes", "too_long", "1000000 bytes"),
        ("yes >&2", "too_long", "8000000 bytes"),
    ],
)
def test_each_failure_has_its_kind(script, kind, words):
    failed = failure_of(*SHELL, script)
    assert (failed.kind, words in failed.message) == (kind, True), failed


def test_a_command_that_never_ends_is_ended_with_all_it_started(tmp_path):
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}.part; mv {pids}.part {pids}; wait"

    async def scene() -> tuple[list[int], Failure | Reply]:
        seat = Seat("s", provider="command", command=(*SHELL, script), timeout_s=1.5)
        async with Caller([seat]) as caller:
            call = Call(seat, "answer", "Why?", "key", Query("Why?"), may_retry=False)
            result = await caller.call(call)
        return [int(pid) for pid in pids.read_text().split()], result

    started, failed = asyncio.run(scene())
    assert isinstance(failed, Failure)
    assert failed.kind == "timeout"
    assert not any(map(lives, started))


def test_a_time_limit_says_what_the_command_last_printed(monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", "sk-own-0123456789")
    script = "echo start; echo 'waiting for the network with sk-own-0123456789' >&2; exec sleep 600"
    failed = failure_of(*SHELL, script, timeout_s=1.5, pass_env=("OWN_API_KEY",))
    assert failed.kind == "timeout"
    assert "1.5 s" in failed.message
    assert "waiting for the network" in failed.message
    assert "sk-own" not in failed.message


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not adopt orphans")
def test_forks_end_with_the_command_even_if_they_left_its_group(tmp_path):
    pids = tmp_path / "pids"
    script = f"(setsid sh -c 'echo $$ >> {pids}; sleep 600' &); (sleep 601 & echo $! >> {pids})\n"
    script += f"while [ $(wc -l < {pids}) -lt 2 ]; do sleep 0.05; done; echo done"
    assert text_of(*SHELL, f"touch {pids}; {script}", timeout_s=30.0) == "done"
    assert not any(lives(int(pid)) for pid in pids.read_text().split())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists processes in files")
@pytest.mark.parametrize("end", ["KILL", "TERM"])
def test_what_a_command_started_ends_even_if_it_kills_its_guard(tmp_path, end):
    pids = tmp_path / "pids"
    script = (
        f"(setsid sh -c 'echo $$ >> {pids}; exec sleep 600' &); sleep 601 & echo $! >> {pids}\n"
    )
    script += f"while [ $(wc -l < {pids}) -lt 2 ]; do sleep 0.05; done; echo $$ >> {pids}\n"
    failed = failure_of(*SHELL, f"touch {pids}; {script} kill -{end} $PPID; wait", timeout_s=60.0)
    assert failed.kind != "timeout", failed
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 3
    assert not any(map(lives, started))


@pytest.mark.parametrize("turns", [2, 4, 7])
def test_a_command_that_is_cancelled_as_it_starts_ends(tmp_path, turns):
    """The loop is blocked while the guard starts, so asyncio does not know of it yet."""
    pid_file = tmp_path / "pid"

    async def run() -> None:
        async with guard(["/bin/sh", "-c", f"echo $$ > {pid_file}; exec sleep 600"], os.environ):
            await asyncio.Event().wait()

    async def cancelled() -> None:
        task = asyncio.create_task(run())
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - it must block
        task.cancel()
        await asyncio.wait([task], timeout=30.0)
        assert task.cancelled()

    asyncio.run(cancelled())
    assert not (pid_file.exists() and lives(int(pid_file.read_text())))


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_commands_end_when_peerage_is_killed(tmp_path, end):
    pid_file = tmp_path / "pid"
    (tmp_path / "peerage.toml").write_text(
        f"""[council]
verdict = "none"
[[seat]]
name = "a"
provider = "command"
command = ["sh", "-c", "echo $$ > {pid_file}; exec sleep 600"]
timeout_s = 600
[[seat]]
name = "b"
provider = "simulated"
[[seat]]
name = "c"
provider = "simulated"
"""
    )
    peerage = subprocess.Popen(
        [sys.executable, "-m", "peerage", "ask", "Why?", "--config", "peerage.toml"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        pid = int(wait_until(lambda: whole_text(pid_file), peerage))
        with ends(pid):
            peerage.send_signal(end)
            peerage.wait(30)
    finally:
        peerage.kill()
        peerage.wait()


def test_a_command_that_runs_a_council_of_commands_is_refused(monkeypatch):
    monkeypatch.setenv(INSIDE, "1")
    failed = failure_of("cat")
    assert (failed.kind, "inside another command seat" in failed.message) == ("bad_request", True)
    with pytest.raises(ConfigError, match="inside another command seat"):
        check_ready([Seat("s", provider="command", command=("cat",))])


# -- in a session --------------------------------------------------------------------------------


def test_one_call_of_a_seat_runs_at_a_time_unless_it_says_otherwise():
    one = Seat("s", provider="command", command=("cat",))
    assert Caller([one]).channel(one).limiter.window == 1
    two = Seat("s", provider="command", command=("cat",), max_concurrency=2)
    assert Caller([two]).channel(two).limiter.window == 2
    usual = Seat("s", model="m", base_url="http://127.0.0.1:1")
    assert Caller([usual]).channel(usual).limiter.window == 16


def test_a_command_answers_in_a_session(tmp_path):
    seats: list[dict[str, object]] = [{"name": n, "provider": "simulated"} for n in "abc"]
    command = [*SHELL, "grep -q 'two plus two' && echo Four, by counting."]
    seats.append({"name": "agent", "provider": "command", "command": command, "roles": ["answer"]})
    flags = {"store": f"sqlite:///{tmp_path}/p.db", "seat": seats, "council.verdict": "none"}

    async def scene():
        async with Council(config.load(flags=flags, environ={})) as council:
            return await council.ask("What is two plus two?")

    session = asyncio.run(scene())
    texts = {response.model: response.text for response in session.responses}
    assert texts["agent"] == "Four, by counting."
    assert session.status == "done"


# -- the configuration ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seat", "words"),
    [
        ({"provider": "command"}, "needs a program"),
        ({"provider": "command", "command": []}, "needs a program"),
        ({"provider": "command", "command": "claude -p"}, "must be a list"),
        ({"provider": "simulated", "command": ["cat"]}, "only seats of the provider command"),
        ({"provider": "command", "command": ["cat"], "pass_env": ["A B"]}, "not a variable name"),
        ({"provider": "command", "command": ["cat"], "api_key_env": "A_KEY"}, "pass_env"),
        (
            {"provider": "command", "command": ["x", "--key", "sk-ant-api03-" + "aB3" * 20]},
            "may contain a key",
        ),
    ],
)
def test_a_wrong_command_is_refused_with_its_key(seat, words):
    with pytest.raises(ConfigError) as refused:
        config.load(flags={"seat": [{"name": "s", **seat}]}, environ={})
    assert words in str(refused.value)
    assert "aB3aB3" not in str(refused.value)


def test_a_program_that_is_not_here_is_named_before_anything_runs():
    with pytest.raises(ConfigError, match="no-such-agent"):
        check_ready([Seat("s", provider="command", command=("no-such-agent",))])
