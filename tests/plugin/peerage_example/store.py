"""A store in a folder of its own: `folder:///some/where`."""

from __future__ import annotations

from pathlib import Path

from peerage.stores import Store, open_store


def open_folder(url: str) -> Store:
    """The store in a folder, which is made if it is not there."""
    folder = Path(url.removeprefix("folder:///"))
    folder.mkdir(parents=True, exist_ok=True)
    return open_store(f"sqlite:///{folder / 'sessions.db'}")
