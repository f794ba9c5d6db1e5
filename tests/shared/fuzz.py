"""Hostile input for every reader: files and settings with damage, replies of any text, requests.

A reader of ours may refuse its input with a PeerageError; anything else that it raises is a fault.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import SkipTest

from peerage import config
from peerage.errors import PeerageError
from peerage.imports import take
from peerage.stores import open_store

TOKENS = (
    *(b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0.5", b"9" * 400, b"[]", b"{}"),
    *(b'"', b"'", b"[", b"]", b"{", b"}", b",", b":", b"\n", b"\\", b"\\u0000", b"\\ud800", b"="),
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", "\u202e".encode(), b"[" * 300, b"=cmd()", b"../../x"),
)
MAX_SHOWN = 300


def damage(data: bytes, rng: random.Random) -> bytes:
    """Return data with one to four kinds of damage."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randint(1, 40))
        data = rng.choice(
            (
                data[:at] + rng.choice(TOKENS) + data[at:],
                data[:at] + rng.choice(TOKENS) + data[end:],
                data[:at] + data[end:],
                data[:end] + data[at:],
                data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
            )
        )
    return data


def fault_of(read: Callable[[], object]) -> str:
    """Return what a reader raised that is not a refusal, or an empty text."""
    try:
        read()
    except PeerageError as error:
        return "" if str(error).strip() else "a refusal without a word"
    except Exception as error:  # noqa: BLE001 - any other error is what is looked for
        return f"{type(error).__name__}: {error}"[:MAX_SHOWN]
    return ""


def fuzz_import(data: bytes, file: str, folder: Path, rng: random.Random) -> str:
    """Import a damaged file into a new store; return the fault. A refusal must store nothing."""
    path = folder / file
    path.write_bytes(damage(data, rng))
    store = open_store(f"sqlite:///{folder / 'p.db'}")

    def read() -> None:
        try:
            take(store, path, None, lambda: 7.0)
        except PeerageError:
            if store.imports() or store.sessions():
                raise RuntimeError("a refused file was stored") from None
            raise

    try:
        return fault_of(read)
    finally:
        asyncio.run(store.close())


def fuzz_settings(text: bytes, folder: Path, rng: random.Random) -> str:
    """Load damaged settings; return the fault."""
    path = folder / "peerage.toml"
    path.write_bytes(damage(text, rng))
    return fault_of(lambda: config.load(path, flags={}, environ={}))


def check_operation(operation: Any, mode: str, n: int, seed: int = 0) -> int:
    """Send requests to one route of a running server; return how many. None may end with 5xx."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis.errors import Unsatisfiable

    n_sent = 0

    @seeded(seed)
    @settings(
        max_examples=n,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(schemathesis.GenerationMode(mode)))
    def attempt(case: Any) -> None:
        nonlocal n_sent
        n_sent += 1
        answer = case.call(timeout=300)
        assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text[:500]}"
        if answer.status_code >= 400 and operation.path.startswith("/api/"):
            assert answer.headers["content-type"][0] == "application/problem+json"

    try:
        attempt()
    except (Unsatisfiable, SkipTest):  # nothing can be sent there that would be wrong
        assert mode == "negative"
    return n_sent


def routes_of(address: str) -> list[Any]:
    """Return the routes that a server says it has."""
    import schemathesis

    schema: Any = schemathesis.openapi.from_url(f"{address}/openapi.json")
    return [result.ok() for result in schema.get_all_operations()]
