"""The panel of somebody who configured nothing."""

from peerage import config
from peerage.config import default_seats


def names(**environ):
    return [seat["name"] for seat in default_seats(environ)]


def test_without_a_key_there_are_no_seats():
    assert names() == []
    assert names(OPENAI_API_KEY=" ") == []


def test_one_key_of_a_router_seats_four_families():
    seats = default_seats({"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": "k"})
    assert len({seat["family"] for seat in seats}) == 4
    assert {seat["api_key_env"] for seat in seats} == {"OPENROUTER_API_KEY"}


def test_one_vendor_seats_three_models_and_three_vendors_one_each():
    assert len(names(OPENAI_API_KEY="k")) == 3
    assert len(names(OPENAI_API_KEY="k", GEMINI_API_KEY="k")) == 4
    assert len(names(OPENAI_API_KEY="k", GEMINI_API_KEY="k", ANTHROPIC_API_KEY="k")) == 3


def test_the_default_seats_are_seats_the_configuration_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seats = default_seats({"ANTHROPIC_API_KEY": "k"})
    settings = config.load(flags={"seat": seats}, environ={})
    assert [seat.name for seat in settings.seats] == [seat["name"] for seat in seats]
