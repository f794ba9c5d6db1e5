"""Images of questions: checked, sent to the seats that can see, and told to the others."""

import base64

import openai
import pytest

from peerage import ConfigError, Council, InputError, Seat
from peerage.events import SeatRecord
from peerage.messages import MAX_IMAGE_BYTES, query_for, read_image, read_images
from peerage.providers import Call
from peerage.providers.batch_endpoints import AnthropicBatches
from peerage.types import Image, Query, Turn
from peerage.view import SessionView
from tests.doors.http.conftest import running
from tests.providers.conftest import serving

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
LINK = "https://example.org/cat.png"


def data_url(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        URL,
        {"url": URL},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_image", "image_url": URL},
        Image(URL),
    ],
)
def test_an_image_comes_as_a_url_an_object_or_a_part_of_a_message(value):
    assert read_image(value, "images[0]") == Image(URL)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "needs a url"),
        ({"type": "image_url"}, "needs a url"),
        ("cat.png", "not a data URL or a link"),
        ("file:///etc/passwd", "not a data URL or a link"),
        ("ftp://example.org/a.png", "not a data URL or a link"),
        ("https://exa mple.org/a.png", "not a data URL or a link"),
        ("http://[::1/a.png", "not a data URL or a link"),
        (f"https://example.org/{'a' * 2000}", "at most 2,000 characters"),
        ("data:image/png,abc", "not in base64"),
        ("data:image/png;base64,@@@", "not valid base64"),
        (data_url(b"<svg/>", "image/svg+xml"), "'image/svg\\+xml' cannot be sent"),
        (data_url(b"hello", "text/html"), "'text/html' cannot be sent"),
        (data_url(b"\xff\xd8\xff" + PNG), "the bytes of the image are not image/png"),
        (data_url(PNG + bytes(MAX_IMAGE_BYTES)), "4.0 MB, over 4 MB"),
        ({"url": URL, "detail": "huge"}, "detail 'huge'"),
        (7, "needs a url"),
    ],
)
def test_an_image_that_cannot_be_sent_is_refused(value, says):
    with pytest.raises(InputError, match=says):
        read_image(value, "images[0]")


def test_the_hint_on_an_unknown_detail_names_every_detail_that_is_accepted():
    with pytest.raises(InputError) as refused:
        read_image({"url": URL, "detail": "huge"}, "images[0]")
    named = refused.value.hint.removeprefix("Known: ").rstrip(".").split(", ")
    assert [read_image({"url": URL, "detail": one}, "x").detail for one in named] == named
    assert "original" in named


def test_a_question_has_at_most_ten_images_and_eight_megabytes():
    with pytest.raises(InputError, match="11 images: at most 10"):
        read_images([LINK] * 11)
    large = data_url(PNG + bytes(MAX_IMAGE_BYTES - 200))
    with pytest.raises(InputError, match=r"12\.0 MB, over 8 MB"):
        read_images([large] * 3)


# -- seats -----------------------------------------------------------------------------------------


def test_a_seat_that_cannot_see_is_told_where_the_images_were():
    query = Query("Now?", earlier=(Turn("user", "Look.", (Image(LINK),)),), images=(Image(URL),))
    blind, seeing = Seat("a"), Seat("b", images=True)
    assert query_for(seeing, query) is query
    told = query_for(blind, query)
    assert told.all_images == ()
    assert told.text == (
        "Now?\n\n[An image came with this message (image/png, 1 kB) and is not shown to you.]"
    )
    assert "(a link)" in told.earlier[0].content
    assert "example.org" not in told.earlier[0].content


def test_a_reviewer_that_sees_gets_all_images_after_its_page():
    query = Query("Now?", earlier=(Turn("user", "Look.", (Image(LINK),)),), images=(Image(URL),))
    seat = Seat("a", images=True)
    answer = Call(seat, "answer", query.text, "k", query).messages
    review = Call(seat, "review", "page", "k", query).messages
    assert [turn.images for turn in answer] == [(Image(LINK),), (Image(URL),)]
    assert [turn.images for turn in review] == [(Image(LINK), Image(URL))]
    plain = Call(Seat("b"), "answer", query.text, "k", query)
    assert not any(turn.images for turn in plain.messages)


def test_batches_of_anthropic_carry_images_as_blocks():
    query = Query("Now?", images=(Image(URL), Image(LINK)))
    call = Call(Seat("a", images=True), "answer", query.text, "k", query)
    body = AnthropicBatches.request_body(None, call)
    first, second, text = body["messages"][0]["content"]
    assert first["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(PNG).decode(),
    }
    assert second["source"] == {"type": "url", "url": LINK}
    assert text == {"type": "text", "text": "Now?"}


def test_a_command_cannot_be_marked_as_able_to_see(tmp_path):
    seats = [Seat("a", "command", command=("true",), images=True), Seat("b", "simulated")]
    with pytest.raises(ConfigError, match="provider command cannot take images"):
        Council(seats=seats, store=f"sqlite:///{tmp_path}/s.db").ask_sync("Why?")


def test_a_seat_of_systemone_cannot_be_marked_as_able_to_see(tmp_path):
    seat = Seat(
        *("a", "decisions", "m"),
        base_url="http://127.0.0.1:9/v1",
        dialect="systemone",
        roles=("review",),
        images=True,
    )
    with pytest.raises(ConfigError, match="systemone takes no images"):
        Council(seats=[seat, Seat("b", "simulated")], store=f"sqlite:///{tmp_path}/s.db")


def test_old_records_of_seats_stay_as_they_are():
    assert SeatRecord.of(Seat("a")).setup == SeatRecord.of(Seat("a", images=False)).setup
    assert SeatRecord.of(Seat("a")).setup != SeatRecord.of(Seat("a", images=True)).setup


# -- real servers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mock():
    with serving() as server:
        yield server


def panel(mock, folder, **sees):
    seats = [
        Seat(name, "openai", f"{name}-model", base_url=mock.base_url, images=can_see)
        for name, can_see in sees.items()
    ]
    return Council(seats=seats, store=f"sqlite:///{folder}/s.db", seed=7)


def test_images_reach_the_seats_that_see_and_the_session_names_the_others(mock, tmp_path):
    council = panel(mock, tmp_path, ann=True, bob=False, cyd=False)
    session = council.ask_sync("What is this?", images=[URL, LINK])
    stats = mock.stats()
    sent, told = stats["n_images_by_model"], stats["n_told_by_model"]
    n_calls = stats["n_by_model"]
    assert sent["ann-model"] == 2 * n_calls["ann-model"] > 0
    assert told["ann-model"] == 0
    assert not sent["bob-model"]
    assert not sent["cyd-model"]
    assert told["bob-model"] == n_calls["bob-model"] > 0
    view = SessionView.of(council.store.events(session.id))
    assert session.status == "done"
    assert view.images_not_seen_by == ("bob", "cyd")


@pytest.mark.slow
def test_decisions_about_images_reach_the_seats_that_see(mock, tmp_path):
    def deciding(name, dialect, can_see):
        model = f"{name}-model"
        return Seat(
            *(name, "decisions", model),
            base_url=mock.base_url,
            dialect=dialect,
            roles=("review",),
            images=can_see,
        )

    seats = [
        Seat("gus", "openai", "gus-model", base_url=mock.base_url, images=True),
        Seat("hal", "openai", "hal-model", base_url=mock.base_url),
        Seat("ivy", "openai", "ivy-model", base_url=mock.base_url, roles=("answer",)),
        deciding("luna", "openai", True),
        deciding("jev", "systemone", False),
    ]
    council = Council(seats=seats, store=f"sqlite:///{tmp_path}/s.db", seed=7)
    image = {"type": "input_image", "image_url": URL}
    claim = {"type": "predicate", "name": "cat", "instructions": "A cat is shown."}
    inputs = [
        [{"role": "user", "content": [image, {"type": "input_text", "text": "What is it?"}]}],
        [{"role": "user", "content": [image]}],
        [
            {"role": "user", "content": [image]},
            {"type": "function_call", "call_id": "1", "name": "zoom", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": [image]},
        ],
    ]
    with running("", council) as server:
        url = f"{server.client.base_url}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            replies = [
                client.decisions.create(model="council", input=one, questions=[claim])
                for one in inputs
            ]
            for asked in (
                {"input": "x", "questions": [claim | {"instructions": [image]}]},
                {"input": [{"role": "user", "content": [image] * 11}], "questions": [claim]},
            ):
                with pytest.raises(openai.BadRequestError) as refused:
                    client.decisions.create(model="council", **asked)
                assert "image" in refused.value.message
        page = server.client.get(f"/sessions/{replies[0].peerage['session']}").text
    for reply in replies:
        assert set(reply.peerage["votes"]["cat"]) == {"gus", "hal", "luna", "jev"}
        assert reply.peerage["images_not_seen_by"] == ["hal", "jev"]
    stats = mock.stats()
    sent = stats["n_images_by_model"]
    assert sent["luna-model"] == sent["gus-model"] == 4
    assert sent["jev-model"] == sent["hal-model"] == 0
    assert stats["n_told_by_model"]["jev-model"] == 3
    assert "Not seen by" in page


@pytest.mark.slow
def test_clients_of_openai_send_images_and_pages_show_them(mock, tmp_path):
    council = panel(mock, tmp_path, eve=True, fay=False)
    council.allows_unranked = True
    part = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}
    content = [{"type": "text", "text": "What is this?"}, part]
    answers = {
        "agent": [
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "1", "function": {"name": "zoom", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "<script>alert(1)</script> a cat"},
            {"role": "assistant", "content": "A *cat*."},
        ],
        "plain": "A dog.",
    }
    with running("", council) as server:
        url = f"{server.client.base_url}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            reply = client.chat.completions.create(
                model="council", messages=[{"role": "user", "content": content}]
            )
        assert reply.peerage["images_not_seen_by"] == ["fay"]
        assert mock.stats()["n_images_by_model"]["eve-model"] > 0
        session = reply.peerage["session"]
        document = server.client.get(f"/api/sessions/{session}").json()
        assert document["query"]["images"][0]["bytes"] == len(PNG)
        assert document["images_not_seen_by"] == ["fay"]
        page = server.client.get(f"/sessions/{session}").text
        assert f'<img src="/sessions/{session}/images/1"' in page
        assert "Not seen by" in page
        image = server.client.get(f"/sessions/{session}/images/1")
        assert (image.content, image.headers["content-type"]) == (PNG, "image/png")
        assert server.client.get(f"/sessions/{session}/images/2").status_code == 404

        body = {"query": "What?", "answers": answers, "verdict": "none"}
        posted = server.client.post("/api/sessions", json=body)
        assert posted.status_code == 202, posted.text
        server.client.get(f"{posted.headers['location']}/events")  # ends with the session
        page = server.client.get(f"/sessions/{posted.json()['id']}").text
        folded = "<summary>result of zoom <small>3 words</small></summary>"
        result = '<pre tabindex="0">&lt;script&gt;alert(1)&lt;/script&gt; a cat</pre>'
        assert f'<details class="toolstep">{folded}{result}</details>' in page
        assert "<em>cat</em>" in page
        bad = {"query": "What?", "images": ["data:text/html;base64,aGk="]}
        refused = server.client.post("/api/sessions", json=bad)
        assert refused.status_code == 422
        assert "cannot be sent" in refused.text
