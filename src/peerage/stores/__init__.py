"""Stores of events: an append-only log on SQLite or PostgreSQL, one store per file or database.

A store keeps events in the order they are appended. An event is durable when it would survive a
power failure. Readers see complete events only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from peerage.errors import InputError, NotFoundError, UsageError
from peerage.registry import Registry
from peerage.stores.documents import Document, Link
from peerage.stores.records import (
    AccessToken,
    Action,
    Contribution,
    Import,
    Lease,
    Log,
    SessionEntry,
    SessionTakenError,
    StoreError,
)
from peerage.stores.sql_store import Store

__all__ = [
    "NO_STORE",
    "AccessToken",
    "Action",
    "Contribution",
    "Document",
    "Import",
    "Lease",
    "Link",
    "Log",
    "SessionEntry",
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

NO_STORE = "sqlite:///:memory:"  # an empty store, for commands that only read
USER_PASSWORD = re.compile(r"^([\w+.-]+:?//)?([^:@/]*):(?!//).*@")
PASSWORD_OPTION = re.compile(r"(?i)(password\w{0,20}=)[^&\s]*")


def full_id(store: Store, prefix: str) -> str:
    """Return the id of the one session whose id begins with the prefix."""
    ids = store.find(prefix) if prefix else []
    if not ids:
        raise NotFoundError(
            f"there is no session {prefix!r}.", hint="`peerage sessions` lists all sessions."
        )
    if len(ids) > 1 and prefix not in ids:
        raise InputError(
            f"{len(ids)} sessions begin with {prefix!r}: {', '.join(ids[:5])}.",
            hint="Give more of the id.",
        )
    return prefix if prefix in ids else ids[0]


def full_season(store: Store, prefix: str) -> str:
    """Return the id of the one season whose id begins with the prefix."""
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
        latest = f"The latest are: {', '.join(seasons[-5:])}." if seasons else "No seasons yet."
        raise NotFoundError(f"there is no season {prefix!r}.", hint=latest)
    return matches[0]


Opener = Callable[[str], Store]
stores: Registry[Opener] = Registry("store", "peerage.stores")


def open_store(url: str, data: str | Path = "", *, must_exist: bool = False) -> Store:
    """Open the store at a URL such as sqlite:///peerage.db, and create it if it does not exist.

    With a data folder, the store's mirror and other local files go there.
    """
    if must_exist and (file := missing_file(url)) is not None:
        raise StoreError(
            "there is no store at this path.",
            place=str(file),
            hint="Check --store; `peerage ask`, `run` and `import` create a new store.",
        )
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError(
            f"{without_password(url)!r} is not the URL of a store.",
            hint="Write sqlite:///FILE or postgresql://HOST/DATABASE.",
        )
    store = stores.get(scheme)(url)
    if data:
        store.mirror_folder = Path(data) / store.mirror_folder.name
    return store


def missing_file(url: str) -> Path | None:
    """Return the file of an SQLite store that does not exist yet, or None."""
    scheme, _, name = url.partition(":///")
    file = Path(name)
    return file if scheme == "sqlite" and name and not file.exists() else None


def without_password(url: str) -> str:
    """Return a store's URL with its password removed."""
    return PASSWORD_OPTION.sub(r"\1…", USER_PASSWORD.sub(r"\1\2@", url))
