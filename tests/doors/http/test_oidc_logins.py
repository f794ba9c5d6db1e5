"""Logins by OpenID Connect, as a client follows them: who gets in, under which name."""

import base64
import json
import time
from urllib.parse import unquote

import httpx
import pytest

from peerage import config
from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.doors.http.oidc import COOKIE, WRONG
from peerage.members import allow
from peerage.panel import Council
from peerage.tokens import make_token
from tests.doors.http.conftest import running, simulated
from tests.doors.http.oidc_provider import CLIENT, SECRET, running_provider


@pytest.fixture(scope="module")
def oidc(tmp_path_factory):
    """A server on which everyone whom the provider knows is a reviewer."""
    folder = tmp_path_factory.mktemp("oidc")
    with running_provider() as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_OIDC_SECRET", SECRET)
        table = {"issuer": provider.issuer, "client_id": CLIENT, "role": "reviewer"}
        table["client_secret_env"] = "TEST_OIDC_SECRET"  # noqa: S105 - the name of a variable
        settings = config.with_flags(config.Settings(), {"oidc": table})
        council = Council(settings, f"sqlite:///{folder}/s.db", seats=simulated("ann", "bob"))
        app = AppSettings(rules=AccessRules(needs_token=True))
        with running(f"sqlite:///{folder}/s.db", council, settings=app) as started:
            started.provider = provider
            yield started


def log_in(server, claims, changed=None):
    """Log a person in; the person's name, or why the server refused."""
    provider = server.provider
    provider.claims, provider.changed = claims, changed or {}
    with httpx.Client(base_url=server.client.base_url, trust_env=False) as browser:
        began = browser.get("/oidc/login")
        asked = browser.get(began.headers["location"])
        answer = browser.get(asked.headers["location"])
        assert answer.status_code == 303, answer.text
        if answer.headers["location"] == "/login":
            return unquote(browser.cookies.get(WRONG, path="/login"))
        return browser.get("/api/me").json()["name"]


def person(sub, **claims):
    return {"sub": sub, "email": f"{sub}@example.org", "email_verified": True, **claims}


def test_a_reply_that_comes_in_pieces_is_read_whole(oidc):
    assert log_in(oidc, person("ada")) == "ada@example.org"


def test_a_person_who_was_revoked_stays_out_until_allowed_again(oidc):
    store = oidc.service.store
    assert log_in(oidc, person("bea")) == "bea@example.org"
    (token,) = [one for one in store.tokens() if one.name == "bea@example.org"][:1]
    store.revoke_token(token.id, time.time())
    for _ in range(2):
        assert "no longer have access" in log_in(oidc, person("bea"))
    assert len([one for one in store.tokens() if one.scopes == ("review",)]) == 2
    allow(store, "bea@example.org", "admin", time.time())
    assert log_in(oidc, person("bea")) == "bea@example.org"


def test_another_account_with_the_address_of_a_revoked_person_is_refused_too(oidc):
    store = oidc.service.store
    assert log_in(oidc, person("cyd")) == "cyd@example.org"
    (token,) = [one for one in store.tokens() if one.scopes == ("review",) and "cyd" in one.name]
    store.revoke_token(token.id, time.time())
    other = person("another", email="CYD@example.org")
    assert "no longer have access" in log_in(oidc, other)
    allow(store, "cyd@example.org", "ann", time.time() + 1.0)
    assert log_in(oidc, other) == "CYD@example.org (2)"  # a former name is given to nobody else


def test_a_person_who_was_revoked_by_hand_is_not_let_in_by_a_login(oidc):
    store = oidc.service.store
    _, token = make_token("dan@example.org", ("review",), time.time())
    store.add_token(token)
    store.revoke_token(token.id, time.time())
    assert "no longer have access" in log_in(oidc, person("dan"))


@pytest.mark.parametrize(
    ("sub", "claims", "name"),
    [
        ("d1", {"email_verified": False}, "d1"),
        ("d2", {"email_verified": "true", "preferred_username": "dora"}, "dora"),
        ("d3", {"email_verified": None, "preferred_username": "boss@example.org"}, "d3"),
        ("d4", {"email_verified": 0, "preferred_username": "boss\uff20example.org"}, "d4"),
        ("d5", {"email": "new\nline@example.org"}, "newline@example.org"),
        ("d6", {"email": "ann"}, "ann (2)"),  # the name of a seat
        ("d7", {"email": "\u0430nn"}, "\u0430nn (3)"),  # it looks like that seat and like ann (2)
        ("d8", {"email": "local"}, "local (2)"),
    ],
)
def test_only_what_the_provider_vouches_for_becomes_a_name(oidc, sub, claims, name):
    assert log_in(oidc, person(sub, **claims)) == name


def test_an_address_that_is_not_verified_does_not_become_a_name_as_a_subject(oidc):
    name = log_in(oidc, {"sub": "boss@example.org"})
    assert name.startswith("member ")


@pytest.mark.parametrize(
    ("changed", "is_refused"),
    [
        ({"azp": "another"}, True),
        ({"aud": [CLIENT, "another"]}, True),
        ({"aud": [CLIENT, "another"], "azp": "another"}, True),
        ({"aud": [CLIENT, "another"], "azp": CLIENT}, False),
        ({"aud": [CLIENT]}, False),
        ({"azp": CLIENT}, False),
    ],
)
def test_a_login_that_was_issued_to_another_client_is_refused(oidc, changed, is_refused):
    said = log_in(oidc, person("eve"), changed)
    assert ("for another client" in said) is is_refused, said


def kept(value):
    """The cookie of a login that has begun."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


GOOD = {"state": "s", "nonce": "n", "verifier": "v", "next": ""}


@pytest.mark.parametrize(
    "cookie",
    [
        *("", "x", "%%%", "[" * 900, base64.urlsafe_b64encode(b"[" * 2_000).decode()),
        *map(kept, ([], "s", 1, None, {}, {"state": "s"}, {**GOOD, "state": 1})),
        *map(kept, ({**GOOD, "verifier": 1}, {**GOOD, "nonce": "\ud800"}, {**GOOD, "next": None})),
    ],
)
def test_a_callback_of_any_form_is_answered_with_the_login_page(oidc, cookie):
    for query in (
        "code=x&state=s",
        "state=s",
        "code=x",
        "error=a&state=s",
        "code=%ff&state=%ed%a0",
    ):
        answer = oidc.client.get(
            f"/oidc/callback?{query}", headers={"Cookie": f"{COOKIE}={cookie}"}
        )
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize(
    ("path", "document"),
    [
        *(
            ("token", one)
            for one in ([], {}, {"id_token": 1}, {"id_token": "x"}, {"id_token": None})
        ),
        *(("keys", one) for one in ([], {}, {"keys": 1}, {"keys": [1, {"kid": "k1"}]})),
        ("keys", {"keys": [{"kid": "k1", "kty": "RSA", "n": "!", "e": 1}]}),
    ],
)
def test_a_malformed_reply_of_the_provider_is_a_refusal_and_no_fault(oidc, path, document):
    oidc.provider.broken = {path: document}
    provider, oidc.app.state.oidc._keys = oidc.app.state.oidc, []
    try:
        assert "fay" not in log_in(oidc, person("fay"))
        assert not [one for one in oidc.service.store.tokens() if "fay" in one.name]
    finally:
        oidc.provider.broken, provider._keys = {}, []


@pytest.mark.parametrize("document", [{}, {"issuer": 1}, {"issuer": None}, []])
def test_a_malformed_configuration_of_the_provider_is_a_refusal(oidc, document):
    provider = oidc.app.state.oidc
    oidc.provider.broken, provider._read_at = {"configuration": document}, float("-inf")
    try:
        answer = oidc.client.get("/oidc/login")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    finally:
        oidc.provider.broken = {}
