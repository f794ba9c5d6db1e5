"""The connections: compression, redirects and proxies, against a server that sends given bytes."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peerage.providers import Call, CallError, Reply
from peerage.providers.openai_compatible import MAX_ERROR_BYTES, OpenAICompatible
from peerage.types import Query, Seat

DOCUMENT = b'{"choices":[{"message":{"content":"yes"}}]}'


def posted(sent: bytes, host: str = "127.0.0.1") -> tuple[Reply | CallError, list[bytes]]:
    """What comes of a response made of these bytes, and the requests that the server heard."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(sent)
        await writer.drain()
        writer.close()

    async def run() -> Reply | CallError:
        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        seat = Seat("s", model="m", base_url=f"http://{host}:{port}/v1", api_key_env="K")
        provider = OpenAICompatible(seat, {"K": "sk-0123456789"})
        try:
            return await provider.complete(Call(seat, "answer", "?", "k", Query("?")))
        except CallError as error:
            return error
        finally:
            await provider.aclose()
            server.close()

    return asyncio.run(run()), heard


def response(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def kind(outcome: Reply | CallError) -> str:
    assert isinstance(outcome, CallError)
    return outcome.kind


def test_a_compressed_reply_is_read() -> None:
    reply, heard = posted(response(gzip.compress(DOCUMENT), b"content-encoding: gzip"))
    assert isinstance(reply, Reply)
    assert heard[0].startswith(b"POST /v1/chat/completions HTTP/1.1")


def test_a_reply_that_is_wrongly_declared_compressed_is_badly_encoded() -> None:
    wrong, _ = posted(response(b"plain text", b"content-encoding: gzip"))
    assert kind(wrong) == "bad_encoding"


def test_a_small_body_that_unpacks_without_end_is_too_long() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    bombed, _ = posted(response(bomb, b"content-encoding: gzip"))
    assert kind(bombed) == "too_long"


def test_an_error_with_a_body_without_end_is_that_error() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    failed, _ = posted(response(bomb, b"content-encoding: gzip", status=b"500 No"))
    assert kind(failed) == "server_error"
    assert isinstance(failed, CallError)
    assert len(failed.message) < 2 * MAX_ERROR_BYTES


@pytest.mark.parametrize("status", [b"301 M", b"302 M", b"303 M", b"307 M", b"308 M"])
def test_a_redirect_is_not_followed_since_it_would_take_the_key_along(status: bytes) -> None:
    outcome, heard = posted(response(b"", b"location: /v1/elsewhere", status=status))
    assert kind(outcome) == "bad_request"
    assert len(heard) == 1


PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_reached_without_a_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROXIES:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    reply, _ = posted(response(DOCUMENT), host)
    assert isinstance(reply, Reply)


def test_another_machine_is_reached_through_the_proxy_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No name is looked up here: a proxy is asked for the address as it is."""
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    outcome, heard = posted(response(DOCUMENT), "model.invalid")
    assert kind(outcome) == "connection"
    assert heard == []


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.run(peerage.Council.from_config('peerage.toml').ask('Why?'))",
        "peerage.Council.from_config('peerage.toml').ask_sync('Why?')",
    ],
)
def test_a_council_asked_in_one_line_leaves_nothing_open(
    mock: Any, tmp_path: Path, line: str
) -> None:
    seats = (
        f'[[seat]]\nname = "{name}"\nmodel = "{name}"\nbase_url = "{mock.base_url}"\n'
        for name in ("x", "y", "z")
    )
    (tmp_path / "peerage.toml").write_text("".join(seats))
    code = f"import asyncio, peerage; print({line}.status)"
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
