"""A page that is being watched survives the end of its server."""

import signal
import socket
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.shared.waiting import wait_until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

CONFIG = """
store = "sqlite:///s.db"
lease_s = 1.0
{seats}
"""
SEAT = """[[seat]]
name = "{name}"
provider = "simulated"
options = {{latency_ms = 2500}}
"""


def test_a_watched_session_goes_on_after_the_server_was_killed(tmp_path, browse):
    seats = "".join(SEAT.format(name=name) for name in ("ann", "bob", "cyd"))
    (tmp_path / "peerage.toml").write_text(CONFIG.format(seats=seats))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "peerage", "serve", "--port", str(port)]

    def listens():
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    def start():
        server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        wait_until(listens, server)
        return server

    server = start()
    try:
        tab = browse()
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.get_by_label("Question").fill("Still there?")
        tab.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.locator("#session")).to_contain_text("Still there?")
        tab.wait_for_load_state("load")  # with its scripts, which the stopped server could not send
        server.send_signal(signal.SIGSTOP)  # the connection stays open, and nothing comes
        expect(tab.locator("#connection")).to_be_visible()
        server.send_signal(signal.SIGCONT)
        expect(tab.locator("#connection")).to_be_hidden()
        server.send_signal(signal.SIGKILL)
        server.wait()
        expect(tab.locator("#connection")).to_be_visible()
        server = start()
        expect(tab.locator("#connection")).to_be_hidden()
        expect(tab.locator("#status")).to_contain_text("Finished", timeout=40_000)
        expect(tab.locator("table.votes .place")).to_have_count(9)
        tab.faults[:] = [one for one in tab.faults if "ERR_" not in one and "htmx" not in one]
    finally:
        server.kill()
        server.wait()
