"""A model server on loopback that speaks by a script: two seats answer, one hangs, one refuses.

Every reply follows from the request alone, so that what a person sees of a session is the same
whenever it is held.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.shared.mock_text import BLOCK

QUESTION = "Why is the sky blue?"
ANSWERS = {
    "heron": (
        "Air scatters short waves of light far more than long ones, by the fourth power of the "
        "wavelength. So blue reaches us from everywhere in the sky, and red mostly straight from "
        "the sun.\n\n"
        "- Noon: a short way through the air, a pale sun and a blue sky.\n"
        "- Sunset: a long way, the blue is lost, and what is left is red.\n\n"
        "Violet is scattered even more, but the sun sends less of it and our eyes see it badly."
    ),
    "wren": "The sky is blue because it mirrors the sea, which is blue because water is.",
}
MARKS = {"heron": (9, 9, 9, 8, 9), "wren": (2, 5, 3, 8, 7)}
NOTES = {
    "heron": "names the law and checks it at noon and at sunset; says why it is not violet.",
    "wren": "is wrong: the sky is as blue over a desert.",
}
DIMENSIONS = ("accuracy", "relevance", "completeness", "conciseness", "clarity")
VERDICT = (
    "Because air scatters blue light much more than red, so blue comes from all over the sky. "
    "It is **not** a mirror of the sea: deserts have blue skies too."
)
REFUSAL = "I do not talk about the weather."
USAGE_BY_STAGE = {"answer": (14, 96), "review": (830, 160), "conclude": (910, 60)}


def stage_of(prompt: str) -> str:
    if prompt.startswith("You are one reviewer"):
        return "review"
    return "conclude" if prompt.startswith("You chair a panel") else "answer"


def review_of(prompt: str) -> str:
    """Marks and a note for each answer on the page, whatever its label."""
    author_by_text = {text: name for name, text in ANSWERS.items()}
    authors = {label: author_by_text[text] for label, _, text in BLOCK.findall(prompt)}
    evaluations = {
        label: {
            **dict(zip(DIMENSIONS, MARKS[name], strict=True)),
            "notes": f"{label} {NOTES[name]}",
        }
        for label, name in authors.items()
    }
    ranking = sorted(authors, key=lambda label: -MARKS[authors[label]][0])
    (code,) = re.findall(r'"ballot": "(\w+)"', prompt)
    return json.dumps({"ballot": code, "evaluations": evaluations, "ranking": ranking})


class Script(BaseHTTPRequestHandler):
    """Answers a request as its model would."""

    protocol_version = "HTTP/1.1"
    ended = threading.Event()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model, prompt = request["model"], request["messages"][-1]["content"]
        stage = stage_of(prompt)
        if model == "sloth":
            self.ended.wait(60)
            self.close_connection = True
            return
        message = self.message(model, stage, [one["content"] for one in request["messages"]])
        tokens_in, tokens_out = USAGE_BY_STAGE[stage]
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
        if request.get("stream"):
            chunks = [
                {"choices": [{"index": 0, "delta": {"role": "assistant", **message}}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {"choices": [], "usage": usage},
            ]
            lines = [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]
            self._send("".join(lines), "text/event-stream")
        else:
            whole = {"role": "assistant", "content": None, **message}
            choice = {"index": 0, "message": whole, "finish_reason": "stop"}
            self._send(json.dumps({"choices": [choice], "usage": usage}), "application/json")

    def message(self, model: str, stage: str, prompts: list[str]) -> dict[str, Any]:
        """What a model says after these messages."""
        if model == "mule" and stage == "answer":
            return {"refusal": REFUSAL}
        if stage == "answer":
            return {"content": ANSWERS[model]}
        return {"content": review_of(prompts[-1]) if stage == "review" else VERDICT}

    def _send(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the test's output is its own."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that leaves is no error here."""


@contextmanager
def scripted_server(script: type[Script] = Script) -> Iterator[str]:
    """The address of a server that speaks by the script."""
    Script.ended.clear()
    server = Server(("127.0.0.1", 0), script)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        Script.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
