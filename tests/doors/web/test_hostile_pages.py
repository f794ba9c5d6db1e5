"""Whatever models, people and files say, no page runs it and no page asks another host."""

import json
import time
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from peerage.events import (
    Answered,
    Dealt,
    DealtBallot,
    Finished,
    Opened,
    Reviewed,
    ReviewReading,
    ScoringRecord,
    SeatRecord,
    Tallied,
    stored_event,
)
from peerage.types import Dissent, Query, Score, Verdict
from tests.doors.http.conftest import running, simulated
from tests.doors.web.hostile_texts import HOSTILE

pytestmark = pytest.mark.needs("chromium")
N_SEATS = 30  # a session's
REFUSED = "Failed to load resource: the server responded with a status of 4"


def url(server):
    return str(server.client.base_url).rstrip("/")


def session_of_texts(id_, texts):
    """A session in which everything that somebody else writes is one of these texts."""
    names = [f"{text[:80]} {i}" for i, text in enumerate(texts)]
    labels = [f"R{i}" for i in range(len(names))]
    reading = ReviewReading(
        ranking=tuple((label,) for label in labels),
        scores={},
        marks={label: {"accuracy": 5.0, texts[0][:40]: 5.0} for label in labels},
        claimed={},
        notes=dict(zip(labels, texts, strict=True)),
        abstained="",
        recovered="",
        flags=(f"unknown_label:{texts[1]}",),
    )
    scores = tuple(Score(name, 1.0, i, 1, 0, "low", 0.5, 0.5) for i, name in enumerate(names, 1))
    dissent = tuple(Dissent(names[0], 0.5, text) for text in texts[:3])
    facts = [
        Opened(
            Query(texts[2], category=texts[3][:100]),
            "1",
            0,
            "",
            tuple(SeatRecord(name, model=name, roles=("answer", "review")) for name in names),
            law=ScoringRecord(rubric=None, order="balanced", rule="borda", verdict="synthesis"),
        ),
        *(Answered(name, text) for name, text in zip(names, texts, strict=True)),
        Dealt(0, tuple(DealtBallot(name, tuple(names), tuple(labels)) for name in names[:2])),
        *(Reviewed(name, 0, texts[4], review=reading) for name in names[:2]),
        Tallied(scores, (f"no_votes:{names[0]}",)),
        Verdict("synthesis", "\n\n".join(texts), names[0], note=texts[5], dissent=dissent),
        Finished("done"),
    ]
    return [stored_event(id_, seq, time.time(), fact) for seq, fact in enumerate(facts)]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store full of such texts: sessions, opinions, items, contributors."""
    assert len(set(HOSTILE)) >= 100
    folder = tmp_path_factory.mktemp("hostile")
    with running(
        f"sqlite:///{folder}/s.db", simulated("ann", "bob", "cyd", latency_ms=50)
    ) as server:
        server.ids = []
        for start in range(0, len(HOSTILE), N_SEATS):
            texts = HOSTILE[start : start + N_SEATS]
            texts = (*texts, *HOSTILE[: max(0, 6 - len(texts))])
            server.ids.append(f"hostile{start:04}")
            server.service.store.append_all(session_of_texts(server.ids[-1], texts))
        opinions = [
            {"item_id": text, "reviewer": f"r{i % 7} {text}", "opinion": 1, "contributor": text}
            for i, text in enumerate(HOSTILE)
        ]
        lines = "\n".join(map(json.dumps, opinions))
        sent = server.client.post(
            "/api/imports", params={"as": "opinions", "name": "o.jsonl"}, content=lines
        )
        assert sent.status_code < 300, sent.text
        yield server


def look_at(tab, server, paths):
    """Open pages and some of their drawers; what a text runs or fetches is a fault."""
    tab.on("dialog", lambda box: tab.faults.append(box.message))
    for path in paths:
        answer = tab.goto(url(server) + path)
        assert answer.status < 500, path
        assert tab.evaluate("window.ran") is None, path
        drawers = [one.get_attribute("href") for one in tab.locator("a[data-drawer]").all()[::9]]
        for drawer in drawers[:6]:
            assert tab.goto(url(server) + drawer).status == 200
            assert tab.evaluate("window.ran") is None, drawer
    tab.faults[:] = [one for one in tab.faults if not one.startswith(REFUSED)]


@pytest.mark.slow
def test_no_text_of_others_runs_or_is_fetched_where_a_session_is_shown(hostile, browse):
    tab = browse()
    look_at(tab, hostile, [f"/sessions/{id_}" for id_ in hostile.ids])
    tab.goto(f"{url(hostile)}/sessions/{hostile.ids[1]}")
    tab.locator("table.votes td a").first.click()
    expect(tab.get_by_role("dialog")).to_be_visible()
    tab.locator("a[data-drawer]", has_text="Read in full").first.click(force=True)
    assert tab.evaluate("window.ran") is None


@pytest.mark.slow
def test_no_text_of_others_runs_or_is_fetched_on_any_other_page(hostile, browse):
    tab = browse()
    first = hostile.client.get(f"/api/sessions/{hostile.ids[0]}").json()
    name = first["responses"][0]["model"]
    paths = [
        "/",
        "/sessions",
        "/boards/models",
        "/boards/items",
        "/boards/contributors",
        "/judges",
    ]
    paths += ["/boards/reviewers?all=on", "/rings", "/review", "/prompts", "/settings"]
    paths += [f"/models?name={quote(name)}", f"/sessions?search={quote(HOSTILE[4])}"]
    paths += [f"/boards/models?category={quote(HOSTILE[5])}", f"/?query={quote(HOSTILE[6])}"]
    look_at(tab, hostile, paths)


def test_no_text_of_others_runs_while_it_comes_in(hostile, browse):
    tab = browse()
    answers = {
        f"{text[:60]} {i}": text for i, text in enumerate(HOSTILE[:40]) if text.isprintable()
    }
    sent = hostile.client.post(
        "/api/sessions",
        json={"query": HOSTILE[0], "answers": answers, "category": HOSTILE[1][:100]},
    )
    assert sent.status_code == 202, sent.text
    tab.goto(f"{url(hostile)}/sessions/{sent.json()['id']}")
    expect(tab.locator("#status")).to_contain_text("Finished", timeout=30_000)
    assert tab.evaluate("window.ran") is None
