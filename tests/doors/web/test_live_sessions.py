"""The parts of a page that events change: rendered once, and gone on with where one left off."""

import asyncio

from peerage.doors.web.live_sessions import END, LiveSessions
from peerage.panel import Council
from peerage.service import Service
from peerage.session_requests import SessionRequest
from peerage.types import Seat, TypedQuestion

N_VIEWERS = 50


def seats(*names, latency_ms=30):
    options = {"latency_ms": latency_ms}
    return [Seat(name, provider="simulated", options=options) for name in names]


async def watched(live, id_, after=-1):
    return [one async for one in live.stream(id_, after) if not one.startswith(":")]


def place(text):
    return int(text.split("\n", 1)[0].removeprefix("id: ")) if text.startswith("id:") else None


async def hold(folder, n_viewers, **request):
    """Everything that some viewers of one session are sent, and what one is sent later."""
    council = Council(store=f"sqlite:///{folder}/s.db", seats=seats("ann", "bob", "cyd"), seed=1)
    service = Service(council)
    try:
        live = LiveSessions(service)
        id_ = await service.start(SessionRequest(query="Who watches?", **request))
        streams = await asyncio.gather(*(watched(live, id_) for _ in range(n_viewers)))
        places = [p for p in map(place, streams[0]) if p is not None]
        later = await watched(live, id_, places[len(places) // 2])
        return streams, places, later
    finally:
        await service.close()


def test_fifty_viewers_are_sent_what_was_rendered_once(tmp_path):
    streams, places, _ = asyncio.run(hold(tmp_path, N_VIEWERS))
    first = streams[0]
    assert first[-1] == END
    assert places == sorted(set(places))
    for stream in streams:
        assert all(mine is theirs for mine, theirs in zip(stream, first, strict=True))


def test_a_viewer_who_comes_back_is_sent_only_what_is_new(tmp_path):
    _, places, later = asyncio.run(hold(tmp_path, 1))
    new = [p for p in map(place, later) if p is not None]
    assert new == places[len(places) // 2 + 1 :]
    assert later[-1] == END


def test_what_an_event_changes_does_not_grow_with_the_log(tmp_path):
    streams, _, _ = asyncio.run(hold(tmp_path, 1))
    rows = [text for text in streams[0] if 'hx-target="#row-' in text and "<td" in text]
    assert len(rows) >= 3
    assert max(map(len, rows)) < 2 * min(map(len, rows)) + 2_000


def test_votes_of_a_decision_are_shown_as_they_come_and_the_panels_answer_at_the_end(tmp_path):
    question = TypedQuestion("urgent", "predicate", "It is urgent.")
    streams, _, _ = asyncio.run(hold(tmp_path, 1, questions=(question,)))
    votes = [text for text in streams[0] if 'hx-target="#ranking"' in text]
    assert "ann" in "".join(votes)
    assert "Panel" not in votes[0]
    assert "Panel" in votes[-1]
    assert "&#34;ballot&#34;" not in "".join(streams[0])  # as seats write their votes
