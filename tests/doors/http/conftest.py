"""A real server on a loopback port, in a thread, with simulated seats; one for each module."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from peerage.doors.http import create_app
from peerage.doors.http.gate import ConnectionLimits, server_config
from peerage.panel import Council
from peerage.service import Service
from peerage.tokens import make_token
from peerage.types import Seat
from tests.shared.waiting import wait_until


def simulated(*names, **options):
    return [Seat(name, provider="simulated", options=options) for name in names]


@contextmanager
def running(store, seats, limits=None, connections=None, **app_options):
    """A server over a store, of some seats or of a council; its `client` speaks to it."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    started = threading.Event()
    holder = {}

    async def serve():
        council = seats
        if not isinstance(seats, Council):
            council = Council(store=store, seats=seats, seed=1, needs_seats=bool(seats))
        service = Service(council, **(limits or {}))
        app = create_app(service, **app_options)
        config = server_config(app, connections or ConnectionLimits())
        server = uvicorn.Server(config)
        holder.update(service=service, app=app, server=server, loop=asyncio.get_running_loop())
        started.set()
        await server.serve([listening])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    wait_until(lambda: started.is_set() or not thread.is_alive())
    assert started.is_set(), "the server failed as it started"
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        holder["client"] = client
        yield Running(**holder)
    holder["server"].should_exit = True
    thread.join(120)
    assert not thread.is_alive()


class Running:
    """A running server, as tests see it."""

    def __init__(self, service, app, server, loop, client):
        self.service, self.app, self.server, self.loop = service, app, server, loop
        self.client = client

    def hold(self, query="Why?", **request):
        """A session from start to end; its id."""
        started = self.client.post("/api/sessions", json={"query": query, **request})
        assert started.status_code == 202, started.text
        id_ = started.json()["id"]
        self.client.get(f"/api/sessions/{id_}/events")
        return id_

    def add_token(self, name, *scopes, **limits):
        """Make a token in the store, and wait until the server knows; the text of it."""
        text, entry = make_token(name, scopes, time.time(), **limits)
        self.service.store.add_token(entry)
        time.sleep(0.15)  # the server reads its tokens ten times a second at most
        return text

    def revoke(self, text):
        """End a token, and wait until the server knows."""
        self.service.store.revoke_token(text.split("_")[1], time.time())
        time.sleep(1.2)


@pytest.fixture
def token():
    """Makes a token of a scope in a server's store; the text of it."""

    return Running.add_token


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with three quick seats."""
    store = f"sqlite:///{tmp_path_factory.mktemp('server')}/s.db"
    with running(store, simulated("ann", "bob", "cyd")) as started:
        yield started


@pytest.fixture
def serving(tmp_path):
    """Starts a server of its own for one test."""

    def start(seats=None, **options):
        return running(
            f"sqlite:///{tmp_path}/s.db",
            simulated("ann", "bob", "cyd") if seats is None else seats,
            **options,
        )

    return start
