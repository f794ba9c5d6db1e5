"""Write or send reviews as evaluation events of OpenTelemetry, in the JSON form of OTLP.

Each mark is an event `gen_ai.evaluation.result` of the GenAI conventions: the overall score, every
dimension of a rubric and, if a review only ranks, the rank. Events contain no texts.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from peerage.errors import PeerageError, UsageError, shown
from peerage.reviews.columns import MARK

if TYPE_CHECKING:
    import aiohttp

Row = Mapping[str, Any]
Environ = Mapping[str, str]

EVENT = "gen_ai.evaluation.result"
INFO = 9  # the severity of the events
NS = 1_000_000_000
N_EVENTS = 1_000  # events in one request
TIMEOUT_S = 30
LOGS_ENDPOINT = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
ATTRIBUTES = {  # columns of a review, and the attribute of the event for each
    "session_id": "gen_ai.conversation.id",
    "candidate": "gen_ai.response.model",
    "reviewer": "peerage.reviewer",
    "rank": "peerage.rank",
    "position": "peerage.position",
    "round": "peerage.round",
    "query_id": "peerage.query_id",
    "category": "peerage.category",
    "season": "peerage.season",
}
TYPES: Mapping[str, type[str] | type[int] | type[float]] = {  # of columns that are not texts
    "rank": float,
    "position": int,
    "round": int,
}
Value = str | int | float


class CollectorError(PeerageError):
    """Raised if the collector of events cannot be reached or rejects events."""


# -- events ----------------------------------------------------------------------------------------


def evaluation_requests(rows: Iterable[Row], version: str) -> Iterator[tuple[int, str]]:
    """Yield OTLP export requests: the number of events, and the request as a line of JSON."""
    events = (event for row in rows for event in review_events(row))
    while some := list(islice(events, N_EVENTS)):
        service = {"service.name": "peerage", "service.version": version}
        logs = {"scope": {"name": "peerage", "version": version}, "logRecords": some}
        resource = {"resource": {"attributes": _attributes(service)}, "scopeLogs": [logs]}
        document = {"resourceLogs": [resource]}
        yield len(some), json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def review_events(row: Row) -> Iterator[dict[str, Any]]:
    """Yield the events of one review: one for each mark, or one for its rank or abstention."""
    values: dict[str, Any] = {name: value for name, value in row.items() if is_value(value)}
    shared: dict[str, Value] = {
        name: TYPES.get(column, str)(values[column])
        for column, name in ATTRIBUTES.items()
        if column in values
    }
    marks = {"score": values["score"]} if "score" in values else {}
    marks |= {
        name.removeprefix(MARK): mark for name, mark in values.items() if name.startswith(MARK)
    }
    if not marks and "rank" in values:
        marks = {"rank": values["rank"]}
    for name, mark in marks.items():
        about: dict[str, Value] = {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": float(mark),
        }
        yield _event({**about, **shared}, values.get("at"))
    if not marks:
        abstained: dict[str, Value] = {
            "gen_ai.evaluation.name": "score",
            "error.type": "abstained",
        }
        yield _event({**abstained, **shared}, values.get("at"))


def _event(attributes: Mapping[str, Value], at: float | None) -> dict[str, Any]:
    time = {"timeUnixNano": str(int(at * NS))} if at is not None and math.isfinite(at) else {}
    return {
        **time,
        "severityNumber": INFO,
        "eventName": EVENT,
        "attributes": _attributes(attributes),
    }


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    """Return a value in OTLP's JSON form, where whole numbers are strings."""
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}


def is_value(value: Any) -> bool:
    """Return whether a value of a row is neither null nor NaN."""
    return value is not None and value == value


# -- sending ---------------------------------------------------------------------------------------


def send_evaluations(rows: Iterable[Row], version: str, environ: Environ = os.environ) -> int:
    """Send the events to the collector that the OTEL_* variables name; return their number."""
    url = collector_url(environ)
    return asyncio.run(_send(evaluation_requests(rows, version), url, collector_headers(environ)))


def collector_url(environ: Environ) -> str:
    """Return the address to which events are sent."""
    if url := environ.get(LOGS_ENDPOINT, "").strip():
        return _check_url(url, LOGS_ENDPOINT)
    if url := environ.get(ENDPOINT, "").strip():
        return _check_url(url, ENDPOINT).rstrip("/") + "/v1/logs"
    raise UsageError(
        "no file and no collector was given.",
        hint=f"Name a file, or the collector's address in {ENDPOINT}.",
    )


def _check_url(url: str, name: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise UsageError(
            f"{name}: {shown(url)} is not the address of a collector.",
            hint="As in http://127.0.0.1:4318; events are sent by OTLP over HTTP.",
        )
    return url


def collector_headers(environ: Environ) -> dict[str, str]:
    """Return the headers in the OTEL_* variables, as in `authorization=Bearer%20x,team=a`."""
    text = next((environ[name] for name in HEADERS if environ.get(name, "").strip()), "")
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {unquote(name).strip(): unquote(value).strip() for name, _, value in pairs}


async def _send(requests: Iterable[tuple[int, str]], url: str, headers: Mapping[str, str]) -> int:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    n_sent = 0
    async with aiohttp.ClientSession(timeout=timeout) as client:
        for n, body in requests:
            try:
                await _post(client, url, headers, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise CollectorError(
                    f"the collector cannot be reached ({type(error).__name__}).",
                    place=url,
                    hint=f"{n_sent} events were sent before this error. Check {ENDPOINT}.",
                ) from None
            n_sent += n
    return n_sent


async def _post(
    client: aiohttp.ClientSession, url: str, headers: Mapping[str, str], body: str
) -> None:
    """Send one request; raise an error if the collector does not accept all events."""
    sent = {**headers, "content-type": "application/json"}
    async with client.post(
        url, data=body.encode("utf-8", "replace"), headers=sent, allow_redirects=False
    ) as reply:
        text = await reply.text(errors="replace")
        if reply.status // 100 != 2:
            raise CollectorError(f"the collector answered {reply.status}.", place=url)
        rejected = 0
        with suppress(ValueError, LookupError, TypeError):
            rejected = int(json.loads(text)["partialSuccess"]["rejectedLogRecords"])
    if rejected:
        raise CollectorError(f"the collector rejected {rejected} events.", place=url)
