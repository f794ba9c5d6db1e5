"""Opinions on items and items that people contribute, for the community boards."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from peerage.errors import InputError, UsageError, shown
from peerage.imports.table_files import imported_contributors
from peerage.people import MAX_ID
from peerage.stores import Contribution, Store

MAX_ITEM_CHARACTERS = 100_000
UNKNOWN_ITEM = {  # hints, by whether the caller may name the contributor
    True: "Contribute it first, or name its contributor.",
    False: "Contribute it first. A token of scope 'admin' can name the contributor of an item.",
}


class ContributionGiven(BaseModel):
    """An opinion or an item from a person, for the community boards."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    category: str | None = Field(default=None, min_length=1, max_length=MAX_ID)


class OpinionGiven(ContributionGiven):
    """A person's opinion of an item."""

    item_id: str = Field(min_length=1, max_length=MAX_ID, examples=["p17"])
    opinion: float = Field(
        strict=True, allow_inf_nan=False, description="A value of the configured scale, e.g. ±1."
    )
    contributor: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ID,
        description="The contributor of the item, if the item is unknown.",
    )


class ItemGiven(ContributionGiven):
    """A prompt that a person contributes."""

    item_id: str | None = Field(default=None, min_length=1, max_length=MAX_ID)
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ITEM_CHARACTERS,
        description="The prompt itself.",
    )

    @model_validator(mode="after")
    def _require_text_or_id(self) -> Self:
        if self.item_id is None and self.text is None:
            raise ValueError("an item needs a text or an id.")
        return self


def keep_opinions(
    store: Store,
    person: str,
    opinions: Sequence[OpinionGiven],
    scale: Sequence[float],
    at: float,
    *,
    may_name_owners: bool = True,
) -> int:
    """Store a person's opinions, all or none; return their number. The last one on an item counts.

    With `may_name_owners`, an opinion may name the contributor of an unknown item.
    """
    last = {opinion.item_id: opinion for opinion in opinions}
    for opinion in last.values():
        if opinion.opinion not in scale:
            known = ", ".join(f"{value:g}" for value in scale)
            message = f"the opinion {opinion.opinion:g} is not on the scale."
            raise UsageError(message, hint=f"The scale is {known}.")
    owners = imported_contributors(store, list(last))
    rows = []
    for item, one in last.items():
        owner = owners.get(item) or store.contributor_of(item)
        if owner is None and may_name_owners:
            owner = one.contributor
        if owner is None:
            raise InputError(
                f"the item {shown(item)} is unknown.",
                hint=UNKNOWN_ITEM[may_name_owners],
            )
        if one.contributor not in (None, owner):
            raise _wrong_contributor(item, owner, one.contributor)
        row = Contribution("opinions", item, owner, at, person, one.opinion, one.category)
        rows.append(row)
    _keep(store, rows, owners)
    return len(rows)


def keep_items(store: Store, person: str, items: Sequence[ItemGiven], at: float) -> list[str]:
    """Store items that a person contributes, all or none; return their ids."""
    rows = []
    for item in items:
        id_ = item.item_id or secrets.token_hex(8)
        row = Contribution("items", id_, person, at, category=item.category, text=item.text)
        rows.append(row)
    ids = [row.item_id for row in rows]
    _keep(store, rows, imported_contributors(store, ids))
    return ids


def _keep(store: Store, rows: Sequence[Contribution], owners: Mapping[str, str]) -> None:
    """Store contributions; raise an error for an item imported with another contributor."""
    for row in rows:
        owner = owners.get(row.item_id, row.contributor)
        if owner != row.contributor:
            raise _wrong_contributor(row.item_id, owner, row.contributor)
    store.add_contributions(rows)


def _wrong_contributor(item: str, owner: str, other: str) -> InputError:
    return InputError(
        f"the item {shown(item)} belongs to {owner}, not to {other}.",
        hint="An item has one contributor. Nothing was stored.",
    )
