"""Servers on this machine are found by their list of models, and nothing else is taken for one."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from peerage.providers.model_servers import ModelServer, model_servers


@contextmanager
def serving(status, body):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/v1/models"
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/v1/models")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_is_found_with_its_chat_models():
    ids = ["qwen3:8b", "nomic-embed-text", "bad\nname", 7, "llama3.2:3b"]
    with serving(200, json.dumps({"data": [{"id": id_} for id_ in ids]}).encode()) as port:
        assert model_servers([("Ollama", port), ("vLLM", 9)]) == [
            ModelServer("Ollama", f"http://127.0.0.1:{port}/v1", ("qwen3:8b", "llama3.2:3b"))
        ]


@pytest.mark.slow
def test_other_http_servers_are_not_model_servers():
    for status, body in ((404, b"{}"), (200, b"<html>"), (200, b'{"data": 3}'), (302, b"")):
        with serving(status, body) as port:
            assert model_servers([("x", port)]) == []
