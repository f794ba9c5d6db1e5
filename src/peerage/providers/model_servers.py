"""Model servers on this machine that speak OpenAI's protocol, found by their usual ports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from peerage.providers import MAX_REPLY_BYTES

USUAL_PORTS = (("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000), ("LM Studio", 1234))
FIND_S = 0.7  # time limit for a server on this machine
MAX_ID_CHARACTERS = 80
NO_CHAT = ("embed", "rerank", "whisper", "tts", "bge-", "clip")  # in ids of models without chat


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A running model server and the ids of its chat models."""

    name: str
    base_url: str
    models: tuple[str, ...]


def model_servers(ports: Sequence[tuple[str, int]] = USUAL_PORTS) -> list[ModelServer]:
    """Return the servers on loopback that list chat models; ask all at once, with a short limit."""
    with ThreadPoolExecutor(len(ports)) as executor:
        servers = executor.map(lambda port: _server(*port), ports)
        return [server for server in servers if server.models]


def _server(name: str, port: int) -> ModelServer:
    base_url = f"http://127.0.0.1:{port}/v1"
    try:
        # Ask the port directly: without a proxy, and without redirects to another machine.
        with closing(HTTPConnection("127.0.0.1", port, timeout=FIND_S)) as connection:
            connection.request("GET", "/v1/models")
            document = json.loads(connection.getresponse().read(MAX_REPLY_BYTES))
        ids = [entry["id"] for entry in document["data"]]
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        ids = []  # no server, or another kind of server
    return ModelServer(name, base_url, tuple(filter(_is_chat_model, ids)))


def _is_chat_model(id_: object) -> bool:
    return (
        isinstance(id_, str)
        and 0 < len(id_) <= MAX_ID_CHARACTERS
        and id_.isascii()
        and id_.isprintable()
        and not any(word in id_.lower() for word in NO_CHAT)
    )
