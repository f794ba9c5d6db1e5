"""A store in a folder of its own: `folder:///some/where`."""

from __future__ import annotations

from pathlib import Path

from peerage.plugins import Store, open_store


def open_folder(url: str) -> Store:
    """Return the store in a folder, which is created if it does not exist."""
    folder = Path(url.removeprefix("folder:///"))
    folder.mkdir(parents=True, exist_ok=True)
    return open_store(f"sqlite:///{folder / 'sessions.db'}")
