"""A model server that answers at once and misbehaves on demand, in OpenAI's protocol.

It runs in a process of its own: `python -m tests.shared.mock_server` prints its address as one
line of JSON and ends when its standard input does. A reply is a function of the seed and
of the request alone, so that a season run twice, or interrupted and resumed, reads the same.

How to behave is written in the model's name, after a question mark, as in a URL:
`mock?do=429,500,ok&retry_after=1`. The list under `do` is worked through call by call and its
last word stays; the other settings are in `Manners`. `GET /stats` counts, `POST /reset` forgets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import hashlib
import json
import sys
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import cast

from tests.shared.mock_batches import MockBatches
from tests.shared.mock_decisions import decision, refusal_of
from tests.shared.mock_documents import (
    Json,
    Manners,
    Rates,
    chunked,
    completion,
    head,
    manners,
    packed,
    pieces,
    trouble,
)
from tests.shared.mock_text import compose

HEAD_END = b"\r\n\r\n"


# -- what was asked and how it went -------------------------------------------------------------


@dataclass
class Tally:
    """What `GET /stats` tells."""

    n_calls: int = 0
    n_by_fault: Counter[str] = field(default_factory=Counter)
    n_by_stage: Counter[str] = field(default_factory=Counter)
    n_by_model: Counter[str] = field(default_factory=Counter)
    n_images_by_model: Counter[str] = field(default_factory=Counter)
    n_told_by_model: Counter[str] = field(default_factory=Counter)  # of an image that is not sent
    n_connections: int = 0
    n_answered_again: int = 0  # the same request answered in full a second time
    in_flight: int = 0
    max_in_flight: int = 0
    seen: Counter[bytes] = field(default_factory=Counter)
    answered: set[bytes] = field(default_factory=set)

    def document(self) -> Json:
        plain = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.name not in ("seen", "answered")
        }
        return {**plain, "n_distinct": len(self.seen)}


# -- one connection -----------------------------------------------------------------------------

JSON_TYPE, SSE_TYPE = b"application/json", b"text/event-stream"
HTML = b"<!doctype html><title>Gateway</title><h1>Please sign in</h1>"
ENDLESS_PIECE = "and so on " * 400


class Connection(asyncio.Protocol):
    """Requests of one keep-alive connection, one after the other."""

    def __init__(self, tally: Tally, rates: Rates, batches: MockBatches) -> None:
        self.tally = tally
        self.batches = batches
        self.rates = rates
        self.buffer = b""
        self.transport: asyncio.Transport
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.tally.n_connections += 1

    def connection_lost(self, _: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()
        if self.timer is not None:
            self.timer.cancel()
            self.done()

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        end = self.buffer.find(HEAD_END)
        if end < 0:
            return
        head = self.buffer[:end].lower()
        start = head.find(b"content-length:")
        length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
        total = end + 4 + length
        if len(self.buffer) < total:
            return
        first, body = self.buffer[: self.buffer.find(b"\r\n")], self.buffer[end + 4 : total]
        key_at = head.find(b"authorization:")
        key = self.buffer[key_at:end].split(b"\r\n", 1)[0] if key_at >= 0 else b""
        self.buffer = self.buffer[total:]
        self.answer(first, key, body)

    def answer(self, first: bytes, key: bytes, body: bytes) -> None:
        verb, path, _ = first.split(b" ", 2)
        if (result := self.batches.answer(verb.decode(), path.decode(), body)) is not None:
            if result.is_aborted:
                self.transport.abort()
            elif not result.is_held:
                self.send(result.status, result.body)
        elif verb == b"POST" and path.endswith(b"/chat/completions"):
            self.chat(key, body)
        elif verb == b"POST" and path.endswith((b"/decisions", b"/systemone")):
            self.decide(path.decode().rpartition("/")[2], body)
        elif path == b"/stats":
            self.send(200, packed(self.tally.document()))
        elif path == b"/reset":
            vars(self.tally).update(vars(Tally()))
            self.send(200, b"{}")
        elif path.endswith(b"/models"):
            self.send(200, packed({"object": "list", "data": [{"id": "mock", "object": "model"}]}))
        else:
            self.send(404, trouble(404, "no such path"))

    def send(self, status: int, body: bytes, kind: bytes = JSON_TYPE, extra: bytes = b"") -> None:
        self.transport.write(head(status, len(body), kind, extra) + body)

    # -- a call ------------------------------------------------------------------------------

    def chat(self, key: bytes, body: bytes) -> None:
        request: Json = json.loads(body)
        how = manners(request["model"])
        tally, name = self.tally, hashlib.sha256(body).digest()[:12]
        n_of_model = tally.n_by_model[request["model"]]
        fault = how.do[min(n_of_model, len(how.do) - 1)]
        if fault == "ok":
            fault = self.rates.draw(body, tally.seen[name])
        barred = [param for param in how.refuses if param in request]
        fault = "400" if barred else fault
        stage, text = compose(self.rates.seed, request, how.n_words)
        tally.n_calls += 1
        tally.n_by_model[request["model"]] += 1
        tally.n_images_by_model[request["model"]] += body.count(b'"image_url":{"url":"')
        tally.n_told_by_model[request["model"]] += b"not shown to you" in body
        tally.n_by_fault[fault] += 1
        tally.n_by_stage[stage] += 1
        tally.seen[name] += 1
        tally.in_flight += 1
        tally.max_in_flight = max(tally.max_in_flight, tally.in_flight)
        if fault == "ok":
            tally.n_answered_again += name in tally.answered
            tally.answered.add(name)
        if how.n_bytes:
            text = (text * (how.n_bytes // len(text) + 1))[: how.n_bytes]
        if how.fenced:
            text = f"Let me think.\n\n```json\n{text}\n```"
        loop = asyncio.get_running_loop()
        if fault == "hang":
            self.timer = loop.call_later(3600, self.done)
            return
        complains = complaint(barred, key, how)
        said = trouble(int(fault), complains, how.code) if fault.isdigit() else b""
        reply = functools.partial(self.reply, request, text, fault, how, said)
        latency_ms = how.latency_ms or self.rates.latency_ms
        if latency_ms:
            self.timer = loop.call_later(latency_ms / 1000, reply)
        else:
            reply()

    def decide(self, dialect: str, body: bytes) -> None:
        """Answer typed questions; a fault is a status, or one of those of `mock_decisions`."""
        request: Json = json.loads(body)
        how, tally = manners(request["model"]), self.tally
        fault = how.do[min(tally.n_by_model[request["model"]], len(how.do) - 1)]
        tally.n_calls += 1
        tally.n_by_model[request["model"]] += 1
        tally.n_by_fault[fault] += 1
        tally.n_by_stage["decide"] += 1
        tally.n_images_by_model[request["model"]] += body.count(b'"type":"input_image"')
        tally.n_told_by_model[request["model"]] += b"not shown to you" in body
        if fault.isdigit():
            self.send(int(fault), trouble(int(fault), "no"))
        elif fault == "html":
            self.send(200, HTML, b"text/html; charset=utf-8")
        elif problem := refusal_of(dialect, request):
            self.send(400, trouble(400, problem))
        else:
            self.send(200, packed(decision(self.rates.seed, dialect, request, fault)))

    def done(self) -> None:
        self.timer = None
        self.tally.in_flight -= 1

    def reply(self, request: Json, text: str, fault: str, how: Manners, said: bytes) -> None:
        if said:
            wait = how.retry_after if fault in ("429", "503") else ""
            self.send(int(fault), said, extra=f"retry-after: {wait}\r\n".encode() if wait else b"")
        elif fault == "html":
            self.send(200, HTML, b"text/html; charset=utf-8")
        elif fault == "error_200":  # as OpenRouter says that the model behind it failed
            self.send(200, trouble(502, "the upstream failed"))
        elif fault == "reset":
            self.transport.abort()
        elif fault in ("endless", "drip") or request.get("stream"):
            self.timer = None
            self.task = asyncio.get_running_loop().create_task(
                self.stream(request, text, fault, how)
            )
            return
        else:
            self.whole(packed(completion(request, text, fault, how)), fault)
        self.done()

    def whole(self, body: bytes, fault: str) -> None:
        if fault == "truncated":  # promises more than it sends
            self.transport.write(head(200, len(body), JSON_TYPE) + body[: len(body) // 2])
            self.transport.close()
        elif fault == "cut_json":  # the frame is whole, the document is not
            self.send(200, body[: len(body) // 2])
        elif fault == "latin1":
            self.send(200, body.replace(b'"content":"', b'"content":"caf\xe9 \xff\xfe '))
        else:
            self.send(200, body)

    async def stream(self, request: Json, text: str, fault: str, how: Manners) -> None:
        """Server-sent events, or without end: events if asked to stream, else one long body."""
        try:
            with contextlib.suppress(asyncio.CancelledError):
                as_events = bool(request.get("stream"))
                kind = SSE_TYPE if as_events else JSON_TYPE
                self.transport.write(head(200, None, kind))
                if fault in ("endless", "drip"):
                    await self.ramble(request, as_events, fault)
                for piece in pieces(request, text, fault, how):
                    data = b"data: " + packed(piece) + b"\n\n"
                    if fault == "latin1":
                        data = data.replace(b'"content":"', b'"content":"caf\xe9')
                    self.transport.write(chunked(data))
                    if how.piece_ms:
                        await asyncio.sleep(how.piece_ms / 1000)
                    if fault == "truncated" and b'"finish_reason":null' in data and text:
                        text = ""
                        continue
                    if fault in ("truncated", "cut_json"):
                        self.transport.close()
                        return
                self.transport.write(chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        finally:
            self.tally.in_flight -= 1

    async def ramble(self, request: Json, as_events: bool, fault: str) -> None:
        text, pause_s = (ENDLESS_PIECE, 0.001) if fault == "endless" else ("a", 0.2)
        piece = packed(next(iter(pieces(request, "", "ok", Manners(usage=False)))))
        piece = piece.replace(b'"content":""', packed({"content": text})[1:-1])
        if not as_events:
            self.transport.write(chunked(b'{"choices":[{"message":{"content":"'))
        while not self.transport.is_closing():
            self.transport.write(
                chunked(b"data: " + piece + b"\n\n" if as_events else text.encode())
            )
            await asyncio.sleep(pause_s)


def complaint(barred: list[str], key: bytes, how: Manners) -> str:
    if barred:
        return f"Unsupported parameter: '{barred[0]}' is not supported with this model."
    return f"no: {key.decode('latin-1')}" if how.echo_key else "no"


# -- starting -----------------------------------------------------------------------------------


async def serve(port: int, rates: Rates) -> None:
    """Serve until standard input ends: a parent that dies takes its server with it."""
    tally, batches = Tally(), MockBatches(rates.seed)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(tally, rates, batches), "127.0.0.1", port, backlog=1024
    )
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    print(json.dumps({"base_url": f"{address}/v1", "root": address}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND=P",
        help="a fault and its probability, as in 429=0.05; may be given several times",
    )
    asked = parser.parse_args()
    p_by_fault = {kind: float(p) for kind, _, p in (text.partition("=") for text in asked.fault)}
    asyncio.run(serve(asked.port, Rates(asked.seed, asked.latency_ms, p_by_fault)))


if __name__ == "__main__":
    main()
