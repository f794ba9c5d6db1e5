"""Model servers on this machine: which of the usual ones answers, and what it serves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

WAIT_S = 0.7  # for a server that is there, on the same machine
MAX_REPLY_BYTES = 1 << 20
MAX_ID_CHARACTERS = 80
USUAL_PORTS = (("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000), ("LM Studio", 1234))
NO_CHAT = ("embed", "rerank", "whisper", "tts", "bge-", "clip")  # in the ids of other models


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that answers, and the ids of the chat models that it offers."""

    name: str
    base_url: str
    models: tuple[str, ...]


def model_servers(ports: Sequence[tuple[str, int]] = USUAL_PORTS) -> list[ModelServer]:
    """The servers on loopback that list chat models, asked side by side and only briefly."""
    with ThreadPoolExecutor(len(ports)) as executor:
        found = executor.map(lambda port: _server(*port), ports)
        return [server for server in found if server.models]


def _server(name: str, port: int) -> ModelServer:
    base_url = f"http://127.0.0.1:{port}/v1"
    try:
        # Straight to the port: no proxy is asked, and no redirect leads away from this machine.
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_S)) as connection:
            connection.request("GET", "/v1/models")
            document = json.loads(connection.getresponse().read(MAX_REPLY_BYTES))
        ids = [entry["id"] for entry in document["data"]]
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        ids = []  # nothing there, or something else
    return ModelServer(name, base_url, tuple(filter(_is_chat_model, ids)))


def _is_chat_model(id_: object) -> bool:
    return (
        isinstance(id_, str)
        and 0 < len(id_) <= MAX_ID_CHARACTERS
        and id_.isascii()
        and id_.isprintable()
        and not any(word in id_.lower() for word in NO_CHAT)
    )
