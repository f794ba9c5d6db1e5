"""A real model server in another process, and calls to make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from peerage.providers import Call
from peerage.types import Query, Seat
from tests.shared.batch_seasons import Mock, serving

AskFor = Callable[..., Call]


@pytest.fixture(scope="session")
def mock() -> Iterator[Mock]:
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def flaky_mock() -> Iterator[Mock]:
    """As bad as a server can be and still be used: 5% too busy, 2% broken, 1% hanging."""
    with serving("--fault", "429=0.05", "--fault", "500=0.02", "--fault", "hang=0.01") as server:
        yield server


@pytest.fixture
def ask_for(mock: Mock, request: pytest.FixtureRequest) -> AskFor:
    """Makes a call to a model of the mock server; the model's name says how it behaves.

    Each test's models have names of their own, because the server counts by model.
    """

    def make(behaviour: str = "", *, stage: str = "answer", **about: Any) -> Call:
        in_call = {"prompt", "schema", "max_tokens", "key"}
        of_call = {name: about.pop(name) for name in in_call & set(about)}
        model = f"{request.node.name}{'?' if behaviour else ''}{behaviour}"
        seat = Seat(**{"name": "seat", "model": model, "base_url": mock.base_url, **about})
        plain = {"prompt": "What is a peer?", "key": "7|session|answer|seat|0"}
        return Call(seat, stage, query=Query("What is a peer?"), **{**plain, **of_call})  # type: ignore[arg-type]

    return make
