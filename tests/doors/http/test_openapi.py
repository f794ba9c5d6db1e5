"""The OpenAPI document: examples in it, and no input that it allows or forbids breaks a route."""

from unittest import SkipTest

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

PROBLEM = "application/problem+json"


def test_what_a_client_sends_has_examples_and_every_error_one_shape(server):
    document = server.client.get("/openapi.json").json()
    for place, methods in document["paths"].items():
        for method, about in methods.items():
            body = about.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None and place.startswith("/api/") and "imports" not in place:
                assert "example" in str(body), (method, place)
            if place.startswith("/api/"):
                assert PROBLEM in about["responses"]["default"]["content"], (method, place)
    assert server.client.get("/docs").json() == document


def test_there_is_no_page_that_loads_scripts_from_elsewhere(server):
    assert "json" in server.client.get("/docs").headers["content-type"]
    assert server.client.get("/redoc").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_input_makes_the_server_fail(server, mode):
    import schemathesis  # takes a second, so nobody else waits for it

    server.hold()
    schema = schemathesis.openapi.from_url(f"{server.client.base_url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        check_operation(operation, schemathesis.GenerationMode(mode))


def check_operation(operation, mode):
    @settings(
        max_examples=10,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode))
    def attempt(case):
        answer = case.call(timeout=30)
        assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text[:500]}"
        if answer.status_code >= 400 and operation.path.startswith("/api/"):
            assert answer.headers["content-type"][0] == PROBLEM

    try:
        attempt()
    except (Unsatisfiable, SkipTest):  # nothing can be sent there that would be wrong
        assert mode.value == "negative"
