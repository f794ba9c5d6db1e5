"""Seats that are given in a browser: which hosts they may call, and what they send there."""

import pytest

from peerage import config
from peerage.config import Settings
from peerage.config.settings import SeatTable
from peerage.errors import ConfigError
from peerage.panel import Council
from peerage.panels import check_seat_source, endpoints, panel_settings, save_panel
from peerage.stores import StoredDocument, open_store
from tests.doors.http.conftest import running

OWN = "http://10.0.0.5:8000/v1"
CONFIGURED = Settings(
    seat=(
        SeatTable(name="own", model="m", base_url=OWN, api_key_env="OWN_KEY"),
        SeatTable(name="plain", model="m", base_url="https://llm.example/v1"),
    )
)
VENDOR = "https://openrouter.ai/api/v1"


def seat(**keys):
    return SeatTable(name="a", model="m", **keys)


@pytest.mark.parametrize(
    "given",
    [
        seat(),
        seat(base_url=VENDOR),
        seat(base_url=VENDOR, api_key_env="OPENROUTER_API_KEY"),
        seat(base_url="https://eu.api.openai.com/v1", api_key_env="OPENAI_API_KEY"),
        seat(base_url="http://127.0.0.1:11434/v1"),
        seat(base_url="http://[::1]:8000/v1"),
        seat(base_url=OWN),
        seat(base_url=OWN, api_key_env="OWN_KEY"),
        seat(base_url="https://llm.example/other/v2"),
        seat(provider="simulated", base_url="https://evil.test"),
    ],
)
def test_this_machine_vendors_and_configured_hosts_may_be_called(given):
    check_seat_source(given, CONFIGURED)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (seat(base_url="https://evil.test/v1"), "cannot call 'https://evil.test'"),
        (seat(base_url="http://169.254.169.254/latest"), "cannot call"),
        (seat(base_url="http://10.0.0.6:8000/v1"), "cannot call"),
        (seat(base_url="http://10.0.0.5:22/v1"), "cannot call"),  # another port of that host
        (seat(base_url="http://llm.example/v1"), "cannot call"),  # in clear text
        (seat(base_url="http://api.openai.com/v1"), "cannot call"),
        (seat(base_url="https://api.openai.com.evil.test/v1"), "cannot call"),
        (seat(base_url="https://evil.test?@api.openai.com/v1"), "cannot call"),
        (seat(base_url="http://127.0.0.1.evil.test/v1"), "cannot call"),
        (seat(provider="decisions", base_url="https://evil.test/v1"), "cannot call"),
        (seat(base_url=VENDOR, api_key_env="AWS_SECRET_ACCESS_KEY"), "may not be sent to"),
        (seat(base_url=VENDOR, api_key_env="OPENAI_API_KEY"), "may not be sent to"),
        (seat(base_url=VENDOR, api_key_env="OWN_KEY"), "may not be sent to"),
        (seat(base_url="http://127.0.0.1:8400/v1", api_key_env="OWN_KEY"), "may not be sent to"),
        (seat(base_url=OWN, api_key_env="OPENAI_API_KEY"), "may not be sent to"),
        (seat(base_url="https://llm.example/v1", api_key_env="OWN_KEY"), "may not be sent to"),
        (seat(provider="replay"), "cannot use the provider"),
        (seat(provider="command", command=("sh",)), "cannot use the provider"),
        (seat(provider="local", options={"weights": "/etc/passwd"}), "file of weights"),
    ],
)
def test_no_other_host_is_called_and_no_other_variable_sent(given, words):
    with pytest.raises(ConfigError, match=words) as refused:
        check_seat_source(given, CONFIGURED)
    if "cannot call" in words or "may not" in words:
        assert "an operator adds a [[seat]] with base_url" in refused.value.hint
        assert not given.api_key_env or f'api_key_env = "{given.api_key_env}"' in refused.value.hint


def test_models_are_listed_by_a_post_and_only_of_hosts_that_may_be_called(server):
    url = str(server.client.base_url).rstrip("/") + "/v1"
    listed = server.client.post("/api/endpoints/models", json={"base_url": url})
    assert (listed.status_code, "council" in listed.json()["models"]) == (200, True)
    for given in (
        {"base_url": "http://10.0.0.5:1/v1"},
        {"base_url": url, "api_key_env": "AWS_SECRET_ACCESS_KEY"},
    ):
        refused = server.client.post("/api/endpoints/models", json=given)
        assert (refused.status_code, "operator" in refused.json()["hint"]) == (422, True)
        seat = {"name": "a", "model": "m", **given}
        assert server.client.post("/api/seats/test", json=seat).status_code == 422
    assert server.client.get("/api/endpoints/models", params={"base_url": url}).status_code == 405
    assert server.client.get("/settings/health").status_code in (404, 405)


def test_a_stored_panel_is_checked_again_under_another_configuration(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    seats = [seat(base_url=OWN), SeatTable(name="b", provider="simulated")]
    save_panel(store, CONFIGURED, "p", seats, "lead", 1.0)
    assert len(panel_settings(store, CONFIGURED, "p").seat) == 2
    assert OWN not in dict(endpoints(store, Settings()))
    with pytest.raises(ConfigError, match="cannot call"):
        panel_settings(store, Settings(), "p")


def test_a_server_starts_without_a_stored_panel_that_may_no_longer_be_used(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    store = open_store(url)
    save_panel(store, CONFIGURED, "p", [seat(base_url=OWN)], "lead", 1.0)
    store.put_document(StoredDocument("setting", "panel in use", 1.0, "lead", {"name": "p"}))
    settings = config.with_flags(Settings(), {"seat": [{"name": "sim", "provider": "simulated"}]})
    with running(url, Council(settings, url)) as server:
        assert [one.name for one in server.service.settings.seats] == ["sim"]
        used = server.client.post("/api/panels/p/use")
        assert (used.status_code, "operator" in used.json()["hint"]) == (422, True)
