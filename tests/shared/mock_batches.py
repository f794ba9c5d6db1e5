"""Batches of the mock server, in the shapes of OpenAI and Anthropic.

A batch is over at the second look. How batches end is set by `POST /batch-control` with a JSON
object: `ends` lists, batch by batch, ok, expired, partial, duplicate, missing, foreign, failed,
refused, aborted or odd_file (its results have a name that no address may have), and the last word
stays. `hold` names a step that is never answered (upload, create, created, results), or poll, and
no batch ends; it holds once `hold_from` rows are paid for.
`GET /batch-stats` tells what was made and paid for.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.shared.mock_documents import Json, completion, manners, packed, trouble
from tests.shared.mock_text import compose

OURS = ("ok", "duplicate", "foreign", "aborted")  # ends that answer every row


@dataclass
class Answer:
    """What to send back, or nothing."""

    body: bytes = b"{}"
    status: int = 200
    is_held: bool = False
    is_aborted: bool = False


@dataclass
class MockBatch:
    """One batch: its rows, and how often it was looked at."""

    id: str
    shape: str
    rows: list[Json]
    end: str
    metadata: Json = field(default_factory=dict)
    created_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    n_looks: int = 0
    is_over: bool = False


class MockBatches:
    """All files and batches of the server."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.ends, self.hold, self.hold_from = ["ok"], "", 0
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, MockBatch] = {}
        self.paid: Counter[str] = Counter()  # rows that were answered, by custom_id
        self.steps: Counter[str] = Counter()

    def answer(self, verb: str, path: str, body: bytes) -> Answer | None:
        """Return the answer to a request about batches; None if it is about something else."""
        path = path.partition("?")[0]
        if path == "/batch-control":
            vars(self).update(json.loads(body))
            return Answer()
        if path == "/batch-reset":
            vars(self).update(vars(MockBatches(self.seed)))
            return Answer()
        if path == "/batch-stats":
            return Answer(packed(self.stats()))
        match [verb, *path.removeprefix("/v1/").split("/")]:
            case ["POST", "files"]:
                return self.step("upload") or self.upload(body)
            case ["GET", "files", file, "content"]:
                return self.step("results") or self.results(self.batches[file[4:]], file[:3])
            case ["POST", "batches"]:
                request = json.loads(body)
                lines = self.files[request["input_file_id"]].splitlines()
                return self.create("openai", [json.loads(line) for line in lines], request)
            case ["POST", "messages", "batches"]:
                rows = json.loads(body)["requests"]
                return self.create(
                    "anthropic", [{**row, "body": row["params"]} for row in rows], {}
                )
            case ["GET", "batches"] | ["GET", "messages", "batches"]:
                listed = [self.document(one) for one in reversed(self.batches.values())]
                return Answer(packed({"data": listed}))
            case ["GET", "batches", id_] | ["GET", "messages", "batches", id_]:
                return self.look(id_)
            case ["GET", "messages", "batches", id_, "results"]:
                return self.step("results") or self.results(self.batches[id_], "all")
        return None

    def stats(self) -> Json:
        return {
            "n_batches": len(self.batches),
            "n_rows": [len(batch.rows) for batch in self.batches.values()],
            "paid": dict(self.paid),
            "steps": dict(self.steps),
        }

    def step(self, name: str) -> Answer | None:
        """Count a step; hold the answer where that was asked for."""
        if self.is_held(name):
            self.steps[name] += 1
        return Answer(is_held=True) if self.is_held(name) else None

    def is_held(self, name: str) -> bool:
        return self.hold == name and len(self.paid) >= self.hold_from

    def upload(self, body: bytes) -> Answer:
        id_ = f"file-{len(self.files) + 1}"
        found = re.search(rb"application/jsonl\r\n\r\n(.*)\r\n--peerage", body, re.S)
        assert found is not None
        self.files[id_] = found[1]
        return Answer(packed({"id": id_, "object": "file", "purpose": "batch"}))

    def create(self, shape: str, rows: list[Json], request: Json) -> Answer:
        if held := self.step("create"):
            return held
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if end == "refused":
            return Answer(trouble(400, "batches are not for this model"), 400)
        id_ = f"batch_{len(self.batches) + 1}"
        batch = MockBatch(id_, shape, rows, end, request.get("metadata") or {})
        self.batches[id_] = batch
        if end == "aborted":
            return Answer(is_aborted=True)
        return self.step("created") or Answer(packed(self.document(batch)))

    def look(self, id_: str) -> Answer:
        if id_ not in self.batches:
            return Answer(trouble(404, "no such batch"), 404)
        batch = self.batches[id_]
        batch.n_looks += 1
        if batch.n_looks >= 2 and self.step("poll") is None and not batch.is_over:
            batch.is_over = True
            rows = [row for i, row in enumerate(batch.rows) if is_paid(batch, i)]
            self.paid.update(row["custom_id"] for row in rows)
        return Answer(packed(self.document(batch)))

    def document(self, batch: MockBatch) -> Json:
        n = len(batch.rows)
        n_done = sum(is_paid(batch, i) for i in range(n)) if batch.is_over else 0
        if batch.shape == "anthropic":
            counts = {"processing": 0 if batch.is_over else n, "succeeded": n_done}
            counts["errored"] = n - sum(counts.values())
            status = "ended" if batch.is_over else "in_progress"
            created = batch.created_at
            about = {"processing_status": status, "request_counts": counts}
            return {"id": batch.id, "type": "message_batch", "created_at": created, **about}
        over = {"expired": "expired", "failed": "failed"}.get(batch.end, "completed")
        files = {"output_file_id": f"out-{batch.id}", "error_file_id": f"err-{batch.id}"}
        if batch.end == "odd_file":
            files = {"output_file_id": f"../{batch.id}"}
        return {
            "id": batch.id,
            "object": "batch",
            "status": over if batch.is_over else "in_progress",
            "metadata": batch.metadata,
            "request_counts": {"total": n, "completed": n_done, "failed": n - n_done},
            **(files if batch.is_over and over != "failed" else {}),
        }

    def results(self, batch: MockBatch, part: str) -> Answer:
        """Return lines of results, in another order than the requests."""
        lines: list[Json] = []
        for i, row in reversed(list(enumerate(batch.rows))):
            if part != "err" and is_paid(batch, i):
                lines.append(self.result(batch.shape, row))
            elif part != "out" and not is_paid(batch, i) and batch.end != "missing":
                lines.append(failure(batch, row))
        if batch.end == "duplicate":
            lines += lines
        if batch.end == "foreign" and lines:
            lines.insert(0, {**lines[0], "custom_id": "of-another-season"})
        return Answer(b"\n".join([*map(packed, lines), b"this is not JSON"]))

    def result(self, shape: str, row: Json) -> Json:
        request, how = row["body"], manners(row["body"]["model"])
        _, text = compose(self.seed, request, how.n_words)
        document = completion(request, text, "ok", how)
        if shape == "openai":
            return {
                "custom_id": row["custom_id"],
                "response": {"status_code": 200, "body": document},
                "error": None,
            }
        counted = document["usage"]
        message = {
            "type": "message",
            "model": request["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": counted["prompt_tokens"],
                "output_tokens": counted["completion_tokens"],
            },
        }
        result = {"type": "succeeded", "message": message}
        return {"custom_id": row["custom_id"], "result": result}


def is_paid(batch: MockBatch, i: int) -> bool:
    """Return whether a row gets an answer: every third one does not where a batch ends badly."""
    return batch.end in OURS or (batch.end != "failed" and i % 3 != 0)


def failure(batch: MockBatch, row: Json) -> Json:
    """Return the line of a row without an answer."""
    expired = batch.end == "expired"
    if batch.shape == "anthropic":
        error = {"type": "error", "error": {"type": "api_error", "message": "it failed"}}
        result = {"type": "expired"} if expired else {"type": "errored", "error": error}
        return {"custom_id": row["custom_id"], "result": result}
    if expired:
        error = {"code": "batch_expired", "message": "This request could not be executed."}
        return {"custom_id": row["custom_id"], "response": None, "error": error}
    body = {"error": {"message": "it failed"}}
    response = {"status_code": 500, "body": body}
    return {"custom_id": row["custom_id"], "response": response, "error": None}
