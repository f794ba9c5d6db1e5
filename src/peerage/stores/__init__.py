"""Bytes to and from disk: the append-only log of events, one store a file.

A store takes events in the order they are appended and calls each one durable when it
would survive the machine's going off. Readers see whole events or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from peerage.errors import InputError, NotFoundError, UsageError
from peerage.registry import Registry
from peerage.stores.records import (
    AccessToken,
    Action,
    Contribution,
    Import,
    Lease,
    Listing,
    Log,
    SessionTakenError,
    StoreError,
)
from peerage.stores.sql_store import Store

__all__ = [
    "NO_STORE",
    "AccessToken",
    "Action",
    "Contribution",
    "Import",
    "Lease",
    "Listing",
    "Log",
    "SessionTakenError",
    "Store",
    "StoreError",
    "full_id",
    "full_season",
    "missing_file",
    "open_store",
    "stores",
    "without_password",
]

NO_STORE = "sqlite:///:memory:"  # an empty one, for whoever only reads and finds none
USER_PASSWORD = re.compile(r"^([\w+.-]+:?//)?([^:@/]*):(?!//).*@")
PASSWORD_OPTION = re.compile(r"(?i)(password\w{0,20}=)[^&\s]*")


def full_id(store: Store, prefix: str) -> str:
    """The id of the one session whose id begins so."""
    ids = store.find(prefix) if prefix else []
    if not ids:
        raise NotFoundError(
            f"there is no session {prefix!r}.", hint="`peerage sessions` lists them."
        )
    if len(ids) > 1 and prefix not in ids:
        raise InputError(
            f"{len(ids)} sessions begin with {prefix!r}: {', '.join(ids[:5])}.",
            hint="Give more of the id.",
        )
    return prefix if prefix in ids else ids[0]


def full_season(store: Store, prefix: str) -> str:
    """The id of the one season whose id begins so."""
    seasons = store.seasons()
    matches = [season for season in seasons if prefix and season.startswith(prefix)]
    if prefix in seasons:
        return prefix
    if len(matches) > 1:
        raise InputError(
            f"{len(matches)} seasons begin with {prefix!r}: {', '.join(matches[:5])}.",
            hint="Give more of the id.",
        )
    if not matches:
        latest = f"The latest are: {', '.join(seasons[-5:])}." if seasons else "There is none yet."
        raise NotFoundError(f"there is no season {prefix!r}.", hint=latest)
    return matches[0]


Opener = Callable[[str], Store]
stores: Registry[Opener] = Registry("store", "peerage.stores")


def open_store(url: str, data: str | Path = "", *, must_exist: bool = False) -> Store:
    """The store behind a URL such as sqlite:///peerage.db, made if there is none.

    With a data folder, what this machine keeps beside the store goes there.
    """
    if must_exist and (file := missing_file(url)) is not None:
        raise StoreError(
            "there is no store here.",
            place=str(file),
            hint="Look at --store; `peerage ask`, `run` and `import` make a new one.",
        )
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError(
            f"{without_password(url)!r} is no store.",
            hint="Write sqlite:///FILE or postgresql://HOST/DATABASE.",
        )
    store = stores.get(scheme)(url)
    if data:
        store.mirror_folder = Path(data) / store.mirror_folder.name
    return store


def missing_file(url: str) -> Path | None:
    """The file of a store that is not there yet; None where it is, or where a store is no file."""
    scheme, _, name = url.partition(":///")
    file = Path(name)
    return file if scheme == "sqlite" and name and not file.exists() else None


def without_password(url: str) -> str:
    """A store's URL as it may be shown."""
    return PASSWORD_OPTION.sub(r"\1…", USER_PASSWORD.sub(r"\1\2@", url))
