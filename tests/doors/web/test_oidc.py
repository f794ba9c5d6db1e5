"""People log in by OpenID Connect, at a small provider that is really there."""

import pytest
from playwright.sync_api import expect

from peerage import config
from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.panel import Council
from tests.doors.http.conftest import running, simulated
from tests.doors.http.oidc_provider import CLIENT, SECRET, running_provider

pytestmark = pytest.mark.needs("chromium")


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def oidc(tmp_path_factory):
    """A server whose logins come from a provider."""
    folder = tmp_path_factory.mktemp("oidc")
    with running_provider() as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_OIDC_SECRET", SECRET)
        table = {
            "issuer": provider.issuer,
            "name": "Example",
            "client_id": CLIENT,
            "client_secret_env": "TEST_OIDC_SECRET",
            "domains": ["example.org"],
            "role_claim": "groups",
            "roles": {"raters": "reviewer", "leads": "admin"},
        }
        settings = config.with_flags(config.Settings(), {"oidc": table})
        app = AppSettings(rules=AccessRules(needs_token=True))
        store = f"sqlite:///{folder}/s.db"
        council = Council(settings, store, seats=simulated("ann", "bob", "cyd"))
        with running(store, council, settings=app) as started:
            started.provider = provider
            yield started


def log_in(tab, server):
    tab.goto(f"{url(server)}/login?next=/me")
    tab.get_by_role("link", name="Log in with Example").click()


def test_a_person_logs_in_by_claim_and_keeps_the_name_when_the_role_changes(oidc, browse):
    oidc.provider.claims["groups"] = ["raters"]
    tab = browse()
    log_in(tab, oidc)
    expect(tab).to_have_url(f"{url(oidc)}/me")
    expect(tab.locator("header")).to_contain_text("zoe@example.org")
    expect(tab.locator("header nav")).to_have_text("Review")
    oidc.provider.claims["groups"] = ["raters", "leads"]
    again = browse()
    log_in(again, oidc)
    expect(again.locator("header nav")).to_contain_text("Team")
    names = [one.name for one in oidc.service.store.tokens() if one.scopes[0] != "login"]
    assert set(names) == {"zoe@example.org"}


@pytest.mark.parametrize(
    ("claims", "changed", "words"),
    [
        ({"email": "zoe@evil.test"}, {}, "may not log in here"),
        ({"email_verified": False}, {}, "may not log in here"),
        ({"groups": ["others"]}, {}, "no role here"),
        ({}, {"aud": "another"}, "not valid"),
        ({}, {"iss": "https://evil.test"}, "not valid"),
        ({}, {"exp": 1}, "not valid"),
        ({}, {"nonce": "another"}, "another login"),
    ],
)
def test_a_login_that_is_not_vouched_for_is_refused_in_words(oidc, browse, claims, changed, words):
    before = dict(oidc.provider.claims)
    oidc.provider.claims |= {"groups": ["raters"], **claims}
    oidc.provider.changed = changed
    try:
        tab = browse()
        log_in(tab, oidc)
        expect(tab.get_by_role("alert")).to_contain_text(words)
        tab.faults.clear()
    finally:
        oidc.provider.claims, oidc.provider.changed = before, {}


def test_a_reply_to_a_login_that_this_browser_did_not_begin_is_refused(oidc):
    answer = oidc.client.get("/oidc/callback?code=x&state=y")
    assert answer.headers["location"] == "/login"
    assert "peerage_login" not in answer.cookies
