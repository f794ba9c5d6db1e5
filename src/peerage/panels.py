"""Named panels: seats that people set up in a browser, stored in addition to `peerage.toml`.

The panel of the configuration always exists and cannot be changed here. A seat never contains a
key; it names the variable that holds the key, which is sent only to its vendor, or to the host for
which the configuration names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from peerage import config
from peerage.config import KEY_NAMES, OPENAI_URL, Settings
from peerage.config.settings import SeatTable
from peerage.config.trust import INSIDE, origin_of, vendors_at
from peerage.errors import ConfigError, NotFoundError, UsageError, shown
from peerage.hosts import without_password
from peerage.panel import Council
from peerage.providers import providers
from peerage.stores import Store, StoredDocument

CONFIGURED = "configuration"  # the panel that the file, environment and flags define
KIND, SETTING, IN_USE = "panel", "setting", "panel in use"
NAME = re.compile(r"[^/?#\x00-\x1f\x7f]{1,60}")
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
    """Return the settings with the seats of a panel; refuse a seat that may not be used here."""
    if name == CONFIGURED:
        return configured
    seats = find_panel(store, configured, name).seats
    for seat in seats:  # it may have been stored under another configuration
        check_seat_source(seat, configured)
    return config.with_panel(configured, seats)


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
    """Raise an error for a seat that would read files, run programs, or call a host of its own.

    It may call this machine, a vendor, and a host of the configuration. A variable goes only to
    its vendor, or to a host for which the configuration names it.
    """
    place = f"seat {seat.name}"
    if seat.provider in FROM_FILES or seat.provider not in providers.names():
        known = ", ".join(name for name in providers.names() if name not in FROM_FILES)
        raise ConfigError(
            f"a panel in the store cannot use the provider {shown(seat.provider)}.",
            place=place,
            hint=f"Known: {known}.",
        )
    if seat.provider in INSIDE:
        if seat.options.get("weights"):
            message = "a panel in the store cannot name a file of weights."
            raise ConfigError(message, place=place, hint="Name it in peerage.toml.")
        return
    url = seat.base_url or OPENAI_URL
    address, is_near = origin_of(url)
    named = [one for one in configured.seat if origin_of(one.base_url or OPENAI_URL)[0] == address]
    lines = f"base_url = {json.dumps(without_password(url))}"
    if not (is_near or named or vendors_at(url)):
        raise ConfigError(
            f"a panel in the store cannot call {shown(without_password(address))}.",
            place=place,
            hint=f"To allow it, an operator adds a [[seat]] with {lines} to peerage.toml.",
        )
    variable = config.key_name(seat.seat)
    of_vendor = any(variable in KEY_NAMES[vendor] for vendor in vendors_at(url))
    if variable and not of_vendor and variable not in {config.key_name(one.seat) for one in named}:
        raise ConfigError(
            f"the key in {shown(variable)} may not be sent to {shown(without_password(address))}.",
            place=place,
            hint="A key is only sent to its vendor. To allow it, an operator adds a [[seat]] with "
            f"{lines} and api_key_env = {json.dumps(variable)} to peerage.toml.",
        )


def remove_panel(store: Store, name: str) -> None:
    """Delete a stored panel."""
    if not store.remove_document(KIND, name):
        raise NotFoundError(f"there is no panel {shown(name)} in the store.")


def endpoints(store: Store, configured: Settings) -> list[tuple[str, str]]:
    """Return the addresses that can list models, each with its key's variable.

    They are those of existing seats that may be used, and of vendors whose key is set.
    """
    key_by_url: dict[str, str] = {}
    for panel in list_panels(store, configured):
        for seat in panel.seats:
            if seat.provider == "openai" and _is_usable(seat, configured):
                key_by_url.setdefault(seat.base_url or OPENAI_URL, config.key_name(seat.seat))
    for vendor in config.default_seats():
        key_by_url.setdefault(vendor["base_url"], vendor["api_key_env"])
    return sorted(key_by_url.items())


def _is_usable(seat: SeatTable, configured: Settings) -> bool:
    try:
        check_seat_source(seat, configured)
    except ConfigError:
        return False
    return True
