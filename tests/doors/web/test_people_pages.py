"""A person reviews blind, by keys and by buttons, and finds themself beside the models."""

import pytest
from playwright.sync_api import expect

from peerage.events import PersonReviewed, read_events

pytestmark = pytest.mark.needs("chromium")


def url(server):
    return str(server.client.base_url).rstrip("/")


def test_a_person_ranks_blind_and_is_then_a_reviewer_like_any_other(council, browse):
    council.hold("Who is right?")
    tab = browse()
    tab.goto(f"{url(council)}/review")
    words = tab.locator("main").inner_text()
    assert not any(name in words for name in ("ann", "bob", "cyd", "dan"))
    shown = tab.locator("input[name=order]").input_value().split(",")
    first = tab.locator(".ballot > li").first
    first.focus()
    tab.keyboard.press("ArrowDown")
    tab.locator(".ballot > li").nth(3).get_by_role("button", name="up").click()
    tab.locator(".ballot > li").nth(3).get_by_role("button", name="ties").click()
    places = [tab.locator(f"input[name=place_{name}]").input_value() for name in shown]
    assert places == ["2", "1", "3", "3"]
    tab.get_by_role("button", name="Submit this ranking").click()
    tab.get_by_role("button", name="Who wrote what").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("The reveal")
    expect(tab.locator("table.votes tbody tr")).to_have_count(6)
    id_ = tab.url.split("/")[-2]
    facts = list(read_events(council.service.store.events(id_)))
    said = next(fact for fact in facts if isinstance(fact, PersonReviewed))
    assert said.ballot.reviewer == "local"
    assert [set(tier) for tier in said.review.ranking] == [{shown[1]}, {shown[0]}, {*shown[2:]}]
    tab.goto(f"{url(council)}/judges")
    expect(tab.locator("table.bench")).to_contain_text("local")
    tab.goto(f"{url(council)}/me")
    expect(tab.locator("main")).to_contain_text("Sessions reviewed")


@pytest.mark.slow
def test_answers_are_dragged_into_their_places(council, browse):
    council.hold("Drag?")
    tab = browse(viewport={"width": 1280, "height": 1600})  # the mouse reaches two answers
    tab.goto(f"{url(council)}/review")
    labels = tab.locator(".ballot h3").all_inner_texts()
    handles = [one.bounding_box() for one in tab.locator(".ballot .handle").all()]
    tab.mouse.move(handles[0]["x"] + 5, handles[0]["y"] + 5)
    tab.mouse.down()
    tab.mouse.move(handles[1]["x"] + 5, handles[1]["y"] + 30, steps=12)
    tab.mouse.up()
    expect(tab.locator(".ballot h3").first).to_have_text(labels[1])
    assert tab.locator(".ballot input[type=hidden]").first.input_value() == "1"


@pytest.mark.slow
def test_prompts_are_contributed_and_judged(council, browse):
    tab = browse()
    tab.goto(f"{url(council)}/prompts")
    tab.get_by_label("Contribute a prompt").fill("What is a fair question?")
    tab.get_by_role("button", name="Contribute").click()
    expect(tab.locator(".prompts")).to_contain_text("What is a fair question?")
    expect(tab.locator(".prompts")).to_contain_text("yours")
    given = {"item_id": "p1", "opinion": 1, "contributor": "zoe"}
    assert council.client.post("/api/opinions", json=given).status_code == 201
    tab.goto(f"{url(council)}/boards/items")
    expect(tab.locator("#board")).to_contain_text("p1")
