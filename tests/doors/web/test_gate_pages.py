"""Pages of decisions and judges: the gate, anchors, panel advice, and a reviewer's passport."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from peerage.doors.web.gate_pages import running_interval
from peerage.reports.gate_results import MeasureResult
from peerage.stats.bets import GateVerdict, Look
from tests.doors.http.conftest import running, simulated


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server with a few sessions of three seats."""
    store = f"sqlite:///{tmp_path_factory.mktemp('gate')}/s.db"
    with running(store, simulated("a", "b", "c")) as server:
        for i in range(3):
            server.id = server.hold(f"Question {i}?")
        yield server


def test_the_gate_shows_the_verdict_first_then_the_chart_and_linked_sessions(server: Any) -> None:
    page = server.client.get("/gate?base=a&candidate=b").text
    assert page.index("The reviews so far do not show whether b is worse than a.") < page.index(
        "<polygon"
    )
    assert page.index("<polygon") < page.index("Queries that most favour")
    assert re.search(r'<a href="/sessions/[^"]+">', page)
    assert "style=" not in page
    assert 'aria-current="page">Gate' in page
    assert re.search(r'<span class="badge">undecided</span>', page)  # grey, not red
    document = server.client.get("/api/gate?base=a&candidate=b").json()
    assert document["verdict"] == "undecided"
    several = server.client.get("/api/gate?base=a&candidate=b&candidate=c").json()
    assert [one["candidate"] for one in several["candidates"]] == ["b", "c"]
    assert server.client.get("/api/gate?base=a&candidate=b,c").json() == several
    assert "Name one candidate." in server.client.get("/gate?base=a&candidate=b,c").text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("base=a&candidate=a", "the base and the candidate are the same model, &#39;a&#39;."),
        ("base=a&candidate=nobody", "there is no model &#39;nobody&#39; in these reviews."),
        ("base=a&candidate=b&margin=2", "margin"),
        ("base=a&candidate=b&margin=x", "margin"),
        ("base=a&candidate=b&metric=correct", "no answer is marked as correct or incorrect."),
        ("", "Choose a base and a candidate."),
    ],
)
def test_a_gate_that_cannot_decide_says_why_on_its_page(
    server: Any, query: str, words: str
) -> None:
    page = server.client.get(f"/gate?{query}")
    assert page.status_code == 200
    assert words in page.text
    assert "<polygon" not in page.text


@pytest.mark.slow
def test_anchors_advice_and_passports_have_pages_and_json(server: Any) -> None:
    client = server.client
    assert "no session is an anchor yet." in client.get("/judges/anchors").text
    assert "are too few to choose a panel" in client.get("/judges/advice").text
    assert "must be a judge and a price" in client.get("/judges/advice?price=x").text
    passport = client.get("/judges/passport?name=a").text
    statement = client.get("/api/passports?reviewer=a").json()
    assert statement["subject"][0]["digest"]["sha256"] in passport
    assert "peerage passport a --output passport.json" in passport
    assert "/judges/passport?name=a" in client.get("/judges/reviewer?name=a").text
    refused = ("/judges/passport?name=nobody", "/api/passports?reviewer=nobody", "/api/anchors")
    assert [client.get(path).status_code for path in refused] == [422] * 3


def measure(*looks: Look, after: int | None = None) -> MeasureResult:
    verdict = GateVerdict("better" if after else "undecided", after)
    return MeasureResult("share", verdict, looks[-1].mean, -0.5, 0.9, {}, looks)


def test_a_chart_stays_inside_its_frame_and_marks_where_the_verdict_stood() -> None:
    looks = [Look(n, 0.4, -1.0 / n, 0.5 + 0.5 / n) for n in (1, 5, 20, 40)]
    chart = running_interval(measure(*looks, after=20), 0.1)
    assert all(0.0 <= x <= 100.0 and 0.0 <= y <= 100.0 for x, y in [*chart.band, *chart.means])
    assert chart.decided_at == pytest.approx(100 * 19 / 39, abs=0.01)
    assert [n for n, _ in chart.ticks] == [1, 11, 20, 30, 40]
    lone = running_interval(measure(Look(1, 0.4, -0.9, 1.0)), 0.1)
    assert lone.means == [(50.0, lone.means[0][1])]
    assert lone.decided_at is None
