"""`peerage serve` and `peerage token`: a real server in a process of its own."""

import json
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from peerage.doors.cli.server_commands import _listen
from peerage.errors import UsageError
from tests.shared.waiting import wait_until

SEATS = [{"name": name, "provider": "simulated", "options": {"latency_ms": 150}} for name in "abc"]


@pytest.fixture
def serve(peerage, panel, tmp_path):
    """Starts `peerage serve` on a free port; gives the process and its address."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", "peerage", "serve", "--port", "0", *arguments]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=peerage.environ, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        line = process.stderr.readline()
        return process, line

    panel(SEATS)
    yield start
    for process in started:
        process.kill()
        process.wait(10)
        process.stderr.close()


def address_in(line):
    return line.split(",")[0].split()[-1]


def until_up(client, process):
    def is_up():
        try:
            return client.get("/healthz")
        except httpx.TransportError:
            return None

    wait_until(is_up, process)


@pytest.mark.slow
def test_one_line_says_where_it_listens_and_an_end_lets_sessions_finish(serve, peerage):
    process, line = serve()
    assert line.startswith("peerage: listening on http://127.0.0.1:")
    assert "store sqlite:///peerage.db" in line
    assert "panel a, b, c" in line
    with httpx.Client(base_url=address_in(line), trust_env=False) as client:
        until_up(client, process)
        id_ = client.post("/api/sessions", json={"query": "Why?"}).json()["id"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) in (0, -signal.SIGTERM)
    shown = json.loads(peerage("show", id_, "--json").stdout)
    assert shown["status"] == "done"
    for logged in process.stderr.read().splitlines():
        assert json.loads(logged)["level"]


@pytest.mark.slow
def test_ctrl_c_after_a_board_was_read_leaves_only_the_log_on_stderr(serve):
    process, line = serve()
    with httpx.Client(base_url=address_in(line), trust_env=False) as client:
        until_up(client, process)
        assert client.get("/api/boards/models").status_code == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(40) == 130
    for logged in process.stderr.read().splitlines():
        assert json.loads(logged)["level"]


@pytest.mark.slow
def test_where_others_can_reach_it_a_server_needs_a_token_to_start(serve, peerage):
    for reached in (("--host", "0.0.0.0"), ("--allow-host", "council.example")):  # noqa: S104
        refused = peerage("serve", "--port", "0", *reached)
        assert (refused.returncode, "needs a token" in refused.stderr) == (2, True)
    made = peerage("token", "create", "--scope", "read", "--name", "Ada")
    token = made.stdout.strip()
    process, line = serve("--allow-host", "council.example")
    with httpx.Client(base_url=address_in(line), trust_env=False) as client:
        until_up(client, process)
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get("/api/sessions").status_code == 401
        assert client.get("/api/sessions", headers=bearer).status_code == 200
        named = {**bearer, "Host": "council.example"}
        assert client.get("/api/sessions", headers=named).status_code == 200
    process.send_signal(signal.SIGTERM)
    process.wait(40)
    assert token not in process.stderr.read()


def test_a_refused_server_names_its_store_in_the_hint_and_makes_none(peerage, panel, tmp_path):
    panel(SEATS)
    refused = peerage("serve", "--allow-host", "council.example", "--store", "sqlite:///own.db")
    assert refused.returncode == 2
    command = "token create --scope admin --name NAME --store sqlite:///own.db"
    assert f"peerage {command}" in refused.stderr
    assert not list(tmp_path.glob("*.db"))
    assert peerage(*command.split()).returncode == 0


def test_a_token_is_shown_once_and_can_be_revoked(peerage, tmp_path):
    made = peerage("token", "create", "--scope", "review", "--name", "Ada", "--rate", 30)
    token = made.stdout.strip()
    assert made.returncode == 0
    assert token.startswith("pk_")
    assert token.encode() not in (tmp_path / "peerage.db").read_bytes()
    (listed,) = json.loads(peerage("token", "list", "--json").stdout)["tokens"]
    assert (listed["name"], listed["scopes"], listed["rate"]) == ("Ada", ["review"], 30)
    assert "hash" not in listed
    assert token not in peerage("token", "list").stdout
    assert peerage("token", "revoke", listed["id"]).returncode == 0
    again = peerage("token", "revoke", listed["id"])
    assert (again.returncode, "no token" in again.stderr) == (2, True)
    (tmp_path / "peerage.toml").write_text('[[seat]]\nname = "able"\nprovider = "simulated"\n')
    seat = peerage("token", "create", "--scope", "review", "--name", "able")
    assert (seat.returncode, "is already used" in seat.stderr) == (2, True)
    wrong = peerage("token", "create", "--scope", "everything", "--name", "Ada")
    assert wrong.returncode == 2


def test_a_revoked_person_is_allowed_again_by_name(peerage):
    peerage("token", "create", "--scope", "review", "--name", "Ada")
    (listed,) = json.loads(peerage("token", "list", "--json").stdout)["tokens"]
    nobody = peerage("token", "allow", "Ada")
    assert (nobody.returncode, "no person called" in nobody.stderr) == (2, True)
    peerage("token", "revoke", listed["id"])
    allowed = peerage("token", "allow", "Ada", "--json")
    assert json.loads(allowed.stdout) == {"allowed": "Ada"}


@pytest.mark.parametrize("name", ["Аda", "ａｄａ", "A\u200bda", "local", "chair:ann", "Person 3"])
def test_a_token_has_no_name_that_looks_like_another_or_is_reserved(peerage, name):
    peerage("token", "create", "--scope", "review", "--name", "Ada")
    refused = peerage("token", "create", "--scope", "review", "--name", name)
    assert refused.returncode == 2
    assert "looks like" in refused.stderr or "is reserved" in refused.stderr
    assert peerage("token", "create", "--scope", "run", "--name", "Ada").returncode == 0


def test_a_body_does_not_wait_behind_its_headers():
    with _listen("127.0.0.1", 0) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(UsageError, match="is not a port"):
        _listen("127.0.0.1", port)


def test_a_port_that_is_taken_is_said_once_with_what_to_do():
    with _listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError) as refused:
            _listen("127.0.0.1", port)
    said = f"cannot listen on 127.0.0.1 port {port}: Address already in use."
    assert str(refused.value) == f"{said} Choose another --port; 0 chooses a free one."
