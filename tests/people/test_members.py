"""People of a server: which names are theirs, and who may not come back."""

import time

import pytest

from peerage.config import Settings
from peerage.config.settings import SeatTable
from peerage.errors import UsageError
from peerage.links import INVITATION, accept, invitation, make_link
from peerage.members import allow, check_seat_names
from peerage.stores import open_store
from peerage.tokens import make_token

SETTINGS = Settings(seat=(SeatTable(name="bob", provider="simulated"),))


@pytest.fixture
def store(tmp_path):
    """A store in which Ada has a token."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    store.add_token(make_token("Ada", ["review"], 1.0)[1])
    return store


def join(store, name="", own=""):
    """Accept an invitation for `own`, or for anyone, under a name."""
    body = {"role": "reviewer", "name": own}
    _, link = make_link(INVITATION, body, "lead", 1.0, uses=5)
    store.add_link(link)
    return accept(store, SETTINGS, link, name, time.time())


def revoke(store):
    (token,) = store.tokens()
    store.revoke_token(token.id, time.time())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Ada", "is already used"),
        ("ADA", "looks like"),
        ("\u0410da", "looks like"),  # Cyrillic
        ("\uff21da", "looks like"),  # full width
        ("A\u200bda", "looks like"),  # zero width
        ("b\u03bfb", "looks like"),  # Greek; bob is a seat
        ("debate", "is reserved"),
        ("\u0440\u0435rson 12", "is reserved"),
        ("", "is missing"),
    ],
)
def test_a_new_person_has_a_name_of_its_own(store, name, words):
    with pytest.raises(UsageError, match=words):
        join(store, name)
    assert len(store.tokens()) == 1


def test_another_name_is_accepted(store):
    assert join(store, "Zo\u00eb").name == "Zo\u00eb"


@pytest.mark.parametrize("name", ["\u0410da", "quick", "bob"])
def test_an_invitation_names_nobody_who_looks_like_another(store, name):
    with pytest.raises(UsageError):
        invitation(store, SETTINGS, "reviewer", name)
    assert invitation(store, SETTINGS, "reviewer", "Ada")["name"] == "Ada"


def test_a_revoked_person_comes_back_by_no_invitation_until_allowed(store):
    revoke(store)
    for name, own in (("Ada", ""), ("", "Ada"), ("ada", "")):
        with pytest.raises(UsageError, match="was revoked"):
            join(store, name, own)
    with pytest.raises(UsageError, match="token allow Ada"):
        invitation(store, SETTINGS, "reviewer", "Ada")
    allow(store, "Ada", "lead", time.time())
    with pytest.raises(UsageError, match="is already used"):
        join(store, "Ada")  # an invitation for anyone gives nobody the name of a former person
    assert join(store, own="Ada").name == "Ada"


def test_a_person_who_is_revoked_again_is_barred_again(store):
    revoke(store)
    allow(store, "Ada", "lead", time.time())
    token = join(store, own="Ada")
    store.revoke_token(token.id, time.time())
    with pytest.raises(UsageError, match="was revoked"):
        join(store, own="Ada")


@pytest.mark.parametrize("name", ["Ada", "\u0410da", "b\u03bfb"])
def test_a_seat_has_no_name_of_a_person_and_none_that_looks_like_another_seat(store, name):
    with pytest.raises(UsageError):
        check_seat_names(store, SETTINGS, [SeatTable(name=name, provider="simulated")])
    check_seat_names(store, SETTINGS, [SeatTable(name="bob", provider="simulated")])
