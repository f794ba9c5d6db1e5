"""The OpenAPI document: examples in it, and no input that it allows or forbids breaks a route."""

import re

import jsonschema

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.doors.http.reply_models import DOCUMENT_BY_OPERATION
from peerage.tokens import make_token

PROBLEM = "application/problem+json"


def test_what_a_client_sends_has_examples_and_every_error_one_shape(server):
    document = server.client.get("/openapi.json").json()
    for place, methods in document["paths"].items():
        for method, about in methods.items():
            body = about.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None and place.startswith("/api/") and "binary" not in str(body):
                assert "example" in str(body), (method, place)
            if place.startswith("/api/"):
                assert PROBLEM in about["responses"]["default"]["content"], (method, place)
    assert server.client.get("/docs").json() == document


def operations(document):
    for path, methods in document["paths"].items():
        for about in methods.values():
            yield path, about


def test_operations_have_plain_names_of_their_own(server):
    document = server.client.get("/openapi.json").json()
    names = [about["operationId"] for _, about in operations(document)]
    assert len(set(names)) == len(names)
    assert {"start_session", "read_session", "board_of_models", "chat_completions"} <= {*names}


def test_replies_have_types(server):
    document = server.client.get("/openapi.json").json()
    about_by_name = {about["operationId"]: about for _, about in operations(document)}
    assert set(DOCUMENT_BY_OPERATION) <= set(about_by_name)
    for name, about in about_by_name.items():
        replies = [reply for status, reply in about["responses"].items() if status[0] == "2"]
        contents = {k: v for reply in replies for k, v in reply.get("content", {}).items()}
        assert all(content["schema"] for content in contents.values()), name
        if name in DOCUMENT_BY_OPERATION:
            type_ = f"#/components/schemas/{DOCUMENT_BY_OPERATION[name].__name__}"
            assert contents["application/json"]["schema"] == {"$ref": type_}


def test_the_document_says_which_routes_need_a_token(server, serving):
    document = server.client.get("/openapi.json").json()
    assert set(document["components"]["securitySchemes"]) == {"token", "login"}
    needs = {path: about["security"] for path, about in operations(document)}
    assert needs["/healthz"] == []
    assert {} in needs["/api/sessions"]  # a server on this machine needs none
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as guarded:
        guarded.service.store.add_token(make_token("ann", ["read"], 0.0)[1])
        needs = {p: about["security"] for p, about in operations(guarded.app.openapi())}
    assert needs["/api/sessions"] == [{"token": []}, {"login": []}]


def test_real_replies_follow_their_types(server):
    """The routes make their documents elsewhere, so the types could go their own way."""
    id_ = server.hold(metadata={"run": "7"})
    server.client.post("/api/items", json={"item_id": "p1", "text": "Why?"})
    server.client.post("/api/opinions", json={"item_id": "p1", "opinion": 1})
    boards = [f"/api/boards/{name}" for name in ("models", "contributors", "reviewers", "items")]
    session = f"/api/sessions/{id_}"
    paths = [*boards, "/api/sessions", session, f"{session}/replay", "/api/audit", "/api/rings"]
    paths += ["/healthz", "/readyz", "/api/imports", "/api/actions", "/v1/models"]
    paths += ["/api/ballots/next", "/v1/models/council", "/api/demo"]
    document = server.client.get("/openapi.json").json()
    for path in paths:
        check_reply(document, path, server.client.get(path))
    asked = {"query": "Why?"}
    estimate = server.client.post("/api/sessions/estimate", json=asked)
    check_reply(document, "/api/sessions/estimate", estimate)
    body = {"model": "council", "messages": [{"role": "user", "content": "Why?"}]}
    check_reply(
        document, "/v1/chat/completions", server.client.post("/v1/chat/completions", json=body)
    )
    response = server.client.post("/v1/responses", json={"model": "council", "input": "Why?"})
    check_reply(document, "/v1/responses", response)
    check_reply(
        document, "/v1/responses/x", server.client.get(f"/v1/responses/{response.json()['id']}")
    )


def check_reply(document, path, reply):
    patterns = {re.sub(r"\{\w+\}", "[^/]+", template): template for template in document["paths"]}
    template = next(t for pattern, t in patterns.items() if re.fullmatch(pattern, path))
    about = document["paths"][template][reply.request.method.lower()]
    content = about["responses"][str(reply.status_code)]["content"]["application/json"]
    schema = {**content["schema"], "components": document["components"]}
    for error in jsonschema.Draft202012Validator(schema).iter_errors(reply.json()):
        raise AssertionError(f"{path}: {error.message} at {list(error.absolute_path)}")


def test_there_is_no_page_that_loads_scripts_from_elsewhere(server):
    assert "json" in server.client.get("/docs").headers["content-type"]
    assert server.client.get("/redoc").status_code == 404
