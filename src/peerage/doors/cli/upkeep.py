"""After a session: boards that were asked for before are brought up to date at once."""

from __future__ import annotations

from contextlib import suppress

from peerage.config import Settings
from peerage.convening import law_then
from peerage.errors import PeerageError
from peerage.stores import open_store


def keep_boards(settings: Settings) -> None:
    """Adds what was just stored to the sums that boards are made of, where there are any.

    Whatever is wrong with them the next board will say; the session is stored.
    """
    store = open_store(settings.store)
    if not any(store.mirror_folder.glob("running-*.sums")):
        return  # before anything heavy is loaded
    from peerage.engines.duckdb import DuckDB
    from peerage.standings.live import refresh

    with suppress(PeerageError, OSError):
        refresh(store, lambda law: law_then(settings, law), DuckDB())
