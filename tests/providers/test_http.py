"""The connections: compression, redirects and proxies, against a server that sends given bytes."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from peerage.providers import CallError
from peerage.providers.wire.http import Answer, Wire


def posted(sent: bytes, body: bytes = b"{}") -> tuple[Answer, bytes]:
    """The answer made of these bytes, and what the server heard."""
    heard = bytearray()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(sent)
        await writer.drain()
        writer.close()

    async def run() -> Answer:
        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions")
        try:
            return await wire.post(body, {"authorization": "Bearer k"})
        finally:
            await wire.close()
            server.close()

    return asyncio.run(run()), bytes(heard)


def response(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_a_compressed_reply_is_read() -> None:
    answer, heard = posted(response(gzip.compress(b'{"a": 1}'), b"content-encoding: gzip"))
    assert answer.body == b'{"a": 1}'
    assert b"POST /v1/chat/completions HTTP/1.1" in heard


def test_what_says_it_is_compressed_and_is_not_is_badly_encoded() -> None:
    with pytest.raises(CallError) as wrong:
        posted(response(b"plain text", b"content-encoding: gzip"))
    assert wrong.value.kind == "bad_encoding"


def test_a_small_body_that_unpacks_without_end_is_too_long() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    with pytest.raises(CallError) as bombed:
        posted(response(bomb, b"content-encoding: gzip"))
    assert bombed.value.kind == "too_long"


def test_a_redirect_is_not_followed_since_it_would_take_the_key_along() -> None:
    moved = response(b"", b"location: http://127.0.0.1:1/elsewhere", status=b"307 Moved")
    answer, _ = posted(moved)
    assert answer.status == 307


def test_a_proxy_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(CallError) as unreached:
        posted(response(b"{}"))
    assert unreached.value.kind == "connection"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    answer, _ = posted(response(b"{}"))
    assert answer.status == 200
