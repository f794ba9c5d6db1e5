"""The people of a server: which names are taken, and who was revoked and may not come back."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from peerage.config import Settings
from peerage.config.settings import SeatTable
from peerage.errors import NotFoundError, UsageError, shown
from peerage.names import check_new_name, keys_of
from peerage.panels import list_panels
from peerage.people import judged_sessions
from peerage.stores import AccessToken, Store, StoredDocument
from peerage.tokens import is_login

ALLOWED = "allowed again"  # the kind of document that lets a revoked person come back


def persons(store: Store) -> list[AccessToken]:
    """Return the tokens of people and programs, revoked ones included."""
    return [one for one in store.tokens() if not is_login(one)]


def people_names(store: Store) -> set[str]:
    """Return the names of all people, former ones included: those with a token or a review."""
    return {one.name for one in persons(store)} | set(judged_sessions(store))


def seat_names(store: Store, configured: Settings) -> set[str]:
    """Return the names of the seats of all panels."""
    return {seat.name for panel in list_panels(store, configured) for seat in panel.seats}


def check_person_name(store: Store, configured: Settings, name: str, *, is_new: bool) -> None:
    """Refuse a name for a person that is reserved, that a seat has, or that looks like a name.

    A name that is not for a new person may be that of a person, who then gets another token.
    """
    check_new_name(name, seat_names(store, configured))
    check_new_name(name, sorted(people_names(store)), may_equal=not is_new)


def check_seat_names(store: Store, configured: Settings, seats: Sequence[SeatTable]) -> None:
    """Refuse a seat with the name of a person, or one that looks like another seat's name."""
    people, others = sorted(people_names(store)), sorted(seat_names(store, configured))
    for seat in seats:
        check_new_name(seat.name, people)
        check_new_name(seat.name, others, may_equal=True)


# -- people who were revoked -----------------------------------------------------------------------


def is_barred(store: Store, name: str) -> bool:
    """Return whether a name is that of a person who was revoked and not allowed again."""
    keys = keys_of(name)
    own = [one for one in persons(store) if keys & keys_of(one.name)]
    is_member = any(one.revoked_at is None for one in own)
    return not is_member and any(is_revoked(store, one) for one in own)


def is_revoked(store: Store, token: AccessToken) -> bool:
    """Return whether a token was revoked, and its person not allowed again since."""
    if token.revoked_at is None:
        return False
    allowed = store.document(ALLOWED, token.name)
    return allowed is None or allowed.at < token.revoked_at


def check_not_barred(store: Store, name: str) -> None:
    """Refuse the name of a person who was revoked."""
    if is_barred(store, name):
        raise UsageError(
            f"{shown(name)} was revoked.",
            hint=f"To let this person in again: peerage token allow {quote(name)}",
        )


def allow(store: Store, name: str, by: str, at: float) -> None:
    """Let a revoked person come back."""
    former = [one.name for one in persons(store) if one.revoked_at is not None]
    if name not in former:
        raise NotFoundError(
            f"no person called {shown(name)} was revoked.",
            hint="To list the tokens: peerage token list",
        )
    store.put_document(StoredDocument(ALLOWED, name, at, by, {}))
