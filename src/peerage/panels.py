"""Named panels: seats that people set up in a browser, stored in addition to `peerage.toml`.

The panel of the configuration always exists and cannot be changed here. A seat never contains a
key; it names the variable that holds the key, and a vendor's key is sent only to that vendor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from peerage import config
from peerage.config import KEY_NAMES, OPENAI_URL, Settings
from peerage.config.settings import SeatTable
from peerage.errors import ConfigError, NotFoundError, UsageError, shown
from peerage.hosts import is_host_of
from peerage.panel import Council
from peerage.providers import providers
from peerage.stores import Store, StoredDocument

CONFIGURED = "configuration"  # the panel that the file, environment and flags define
KIND, SETTING, IN_USE = "panel", "setting", "panel in use"
NAME = re.compile(r"[^/?#\x00-\x1f\x7f]{1,60}")
KEY_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,80}_(API_KEY|KEY|TOKEN)")
FROM_FILES = ("replay", "command")  # providers that read files or run programs of the server
MAX_SEATS = 100


@dataclass(frozen=True, slots=True)
class NamedPanel:
    """A named panel, and its last editor."""

    name: str
    seats: tuple[SeatTable, ...]
    is_in_use: bool
    who: str = ""
    at: float | None = None  # None: it is the configuration's, which is read-only

    @property
    def is_read_only(self) -> bool:
        return self.at is None

    def document(self) -> dict[str, object]:
        """Return the panel as JSON; seats name the variables of their keys, not the keys."""
        return {
            "name": self.name,
            "seats": [seat.model_dump(exclude_defaults=True) for seat in self.seats],
            "in_use": self.is_in_use,
            "read_only": self.is_read_only,
            "changed_by": self.who,
            "changed_at": self.at,
        }


def list_panels(store: Store, configured: Settings) -> list[NamedPanel]:
    """Return the configuration's panel, if it has seats, and the stored panels."""
    used = panel_in_use(store, configured)
    panels = (
        [NamedPanel(CONFIGURED, configured.seat, used == CONFIGURED)] if configured.seat else []
    )
    for one in store.documents(KIND):
        seats = tuple(SeatTable(**seat) for seat in one.body["seats"])
        panels.append(NamedPanel(one.name, seats, one.name == used, one.who, one.at))
    return panels


def find_panel(store: Store, configured: Settings, name: str) -> NamedPanel:
    """Return the panel with a name."""
    panels = list_panels(store, configured)
    panel = next((panel for panel in panels if panel.name == name), None)
    if panel is None:
        known = ", ".join(panel.name for panel in panels) or "none"
        raise NotFoundError(f"there is no panel {shown(name)}.", hint=f"Known: {known}.")
    return panel


def panel_in_use(store: Store, configured: Settings) -> str:
    """Return the name of the panel that answers questions now."""
    setting = store.document(SETTING, IN_USE)
    name = str(setting.body["name"]) if setting else CONFIGURED
    is_there = name == CONFIGURED or store.document(KIND, name) is not None
    name = name if is_there else CONFIGURED
    if name == CONFIGURED and not configured.seat:  # use the first stored panel
        return next((one.name for one in store.documents(KIND)), CONFIGURED)
    return name


def panel_settings(store: Store, configured: Settings, name: str) -> Settings:
    """Return the settings with the seats of a panel."""
    if name == CONFIGURED:
        return configured
    return config.with_panel(configured, find_panel(store, configured, name).seats)


def save_panel(
    store: Store, configured: Settings, name: str, seats: Sequence[SeatTable], by: str, at: float
) -> NamedPanel:
    """Check the seats of a panel and store it under its name."""
    name = name.strip()
    if not NAME.fullmatch(name) or name == CONFIGURED:
        raise UsageError(
            f"{shown(name)} is not a valid panel name.",
            hint="A name has up to 60 characters, without / ? and #.",
        )
    if len(seats) > MAX_SEATS:
        raise UsageError(f"a panel may have at most {MAX_SEATS} seats.")
    for seat in seats:
        check_seat_source(seat, configured)
    if seats:
        Council(config.with_panel(configured, seats), store=store)
    body = {"seats": [seat.model_dump(exclude_defaults=True) for seat in seats]}
    store.put_document(StoredDocument(KIND, name, at, by, body))
    return find_panel(store, configured, name)


def check_seat_source(seat: SeatTable, configured: Settings) -> None:
    """Raise an error for a seat that would read files, run programs, or leak a key."""
    place = f"seat {seat.name}"
    if seat.provider in FROM_FILES or seat.provider not in providers.names():
        known = ", ".join(name for name in providers.names() if name not in FROM_FILES)
        raise ConfigError(
            f"a panel in the store cannot use the provider {shown(seat.provider)}.",
            place=place,
            hint=f"Known: {known}.",
        )
    if not seat.api_key_env:
        return
    address = urlsplit(seat.base_url or OPENAI_URL)
    host = address.hostname or ""
    vendors = [vendor for vendor, names in KEY_NAMES.items() if seat.api_key_env in names]
    same = [one for one in configured.seat if one.api_key_env == seat.api_key_env]
    if same and all(urlsplit(one.base_url or OPENAI_URL).hostname == host for one in same):
        return
    of_vendor = any(is_host_of(host, vendor) for vendor in vendors)
    if (vendors and not (of_vendor and address.scheme == "https")) or (same and not vendors):
        raise ConfigError(
            f"the key in {seat.api_key_env} may not be sent to {host}.",
            place=place,
            hint="A key is only sent to its own host. Name another variable.",
        )
    if not KEY_VARIABLE.fullmatch(seat.api_key_env):
        raise ConfigError(
            f"{shown(seat.api_key_env)} is not a valid name for a key's variable.",
            place=place,
            hint="Such a name ends in _API_KEY, _KEY or _TOKEN. Keys are set in the environment.",
        )


def remove_panel(store: Store, name: str) -> None:
    """Delete a stored panel."""
    if not store.remove_document(KIND, name):
        raise NotFoundError(f"there is no panel {shown(name)} in the store.")


def endpoints(store: Store, configured: Settings) -> list[tuple[str, str]]:
    """Return the addresses that can list models, each with its key's variable.

    They are those of existing seats, and of vendors whose key is set.
    """
    key_by_url: dict[str, str] = {}
    for panel in list_panels(store, configured):
        for seat in panel.seats:
            if seat.provider == "openai":
                key_by_url.setdefault(seat.base_url or OPENAI_URL, config.key_name(seat.seat))
    for vendor in config.default_seats():
        key_by_url.setdefault(vendor["base_url"], vendor["api_key_env"])
    return sorted(key_by_url.items())
