"""The sums of opinions that stay where they are: on a cluster, in blocks of whole items.

A block knows all there is to know of its items, so the same function that sums a community
in this process sums a block on a worker. What it makes of them is added up on the cluster too:
what comes here is a row an item and a row a person, however many opinions there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerage.boards.items import ItemSums
from peerage.boards.opinions import Community
from peerage.boards.reviewers import N_SIDES, VoiceSums
from peerage.boards.tally import Tally, Terms, tally
from peerage.engines import Engine
from peerage.engines.opinions import Encoding, Roll, with_hashes, with_opinions
from peerage.engines.sql import sql

if TYPE_CHECKING:
    from peerage.engines import Columns, Frame

Table = NDArray[np.float64]

ITEM, PERSON, WHOLE = range(3)  # what a row of sums is of
KEYS = ("kind", "key")


class Cluster(Engine, Protocol):
    """An engine that has sums made where the rows are."""

    block_rows: int

    def sums(
        self,
        frame: Frame,
        kernel: Callable[[Columns], Columns],
        keys: Sequence[str],
        values: Sequence[str],
    ) -> Columns:
        """What a pure function makes of each `block` of a frame, added up by integer keys."""
        ...


def latest(engine: Cluster, frame: Frame) -> float | None:
    """The last time there is in a frame; None where none is known."""
    import narwhals.stable.v2 as nw

    if "at" not in frame.collect_schema().names():
        return None
    known = nw.when(nw.col("at").is_finite()).then(nw.col("at"))
    found = float(engine.arrays(frame.select(known.max().alias("at")))["at"][0])
    return found if np.isfinite(found) else None


def rows_afar(engine: Cluster, roll: Roll, members: Community, now: float | None) -> Frame:
    """The opinions on the members' items, where they are, with the block that each is in.

    `now` is when an opinion without a time was given; None where none has a time.
    """
    import narwhals.stable.v2 as nw

    rows = with_hashes(roll.frame, roll.encode).to_native()
    n_blocks = max(-(-roll.n_rows // engine.block_rows), 1)
    numbered = rows.selectExpr(
        "*", "monotonically_increasing_id() as row", sql("pmod(item_id, {}) as block", n_blocks)
    )
    roster = engine.open(_roster(roll, members)).to_native()
    joined: Frame = nw.from_native(numbered.join(roster, "item_id").drop("item_id"))
    if now is None:
        return joined.drop("at", strict=False)
    known = nw.when(nw.col("at").is_finite()).then(nw.col("at")).otherwise(nw.lit(now))
    return joined.with_columns(known.alias("at"))


def tally_afar(engine: Cluster, roll: Roll, rows: Frame, members: Community, terms: Terms) -> Tally:
    """The tally of some rows of a roll; a wrong opinion is refused as it is everywhere."""
    _refuse_opinions(engine, roll)
    n_levels = len(members.scale)
    width = (N_SIDES + 1) * n_levels + 1
    block = _Block(roll.encode["opinion"], terms, members.scale, width)
    found = engine.sums(rows, block, KEYS, _names(width))
    kind, key = (np.asarray(found[name], dtype=np.int64) for name in KEYS)
    sums = np.column_stack([found[name] for name in _names(width)])
    items = np.zeros((members.n_items, width))
    items[key[kind == ITEM]] = sums[kind == ITEM]
    people = np.zeros((members.n_people, width))
    people[roll.encode["reviewer"](key[kind == PERSON])] = sums[kind == PERSON]
    n, n_own, n_superseded = (int(one) for one in sums[kind == WHOLE].sum(axis=0)[:3])
    sides, ys, yys = np.split(people, [N_SIDES * n_levels, width - 1], axis=1)
    return Tally(
        ItemSums(items[:, 0].astype(np.int64), items[:, 1], items[:, 2]),
        VoiceSums(sides.astype(np.int64).reshape(-1, n_levels, N_SIDES), ys, yys[:, 0]),
        n,
        n_own,
        n_superseded,
    )


def _refuse_opinions(engine: Cluster, roll: Roll) -> None:
    """Looks at the distinct opinions, and only if one is wrong at the rows."""
    import narwhals.stable.v2 as nw

    levels_of = roll.encode["opinion"]
    distinct = roll.frame.group_by("opinion").agg(nw.len().alias("n"))
    said = engine.arrays(with_hashes(distinct, {"opinion": levels_of}))["opinion"]
    if (levels_of(said) < 0).any():
        with_opinions(engine, roll)


def _roster(roll: Roll, members: Community) -> Columns:
    """The items that count: hash, place, and their contributor's hash as a reviewer."""
    nobody = next(k for k in count() if not (roll.voice_hash == np.uint64(k)).any())
    hash_by_person = np.full(members.n_people, nobody, dtype=np.uint64)
    hash_by_person[roll.voice_place] = roll.voice_hash
    place = {name: code for code, name in enumerate(members.items.tolist())}
    named = roll.members.items[roll.item_place].tolist()
    places = np.array([place.get(name, -1) for name in named], dtype=np.int64)
    chosen = places >= 0
    return {
        "item_id": roll.item_hash[chosen].view(np.int64),
        "item": places[chosen],
        "author": hash_by_person[members.author[places[chosen]]].view(np.int64),
    }


def _names(width: int) -> list[str]:
    return [f"sum_{i}" for i in range(width)]


@dataclass(frozen=True, slots=True)
class _Block:
    """What a worker makes of a block: its sums, a row for each of its items and people."""

    levels_of: Encoding
    terms: Terms
    scale: tuple[float, ...]
    width: int

    def __call__(self, rows: Columns) -> Columns:
        items, item, first = _coded(rows["item"])
        people, reviewer, _ = _coded(rows["reviewer"])
        made = tally(self._community(rows, (item, first), (people, reviewer)), self.terms)
        voices = made.voices
        parts: list[tuple[int, NDArray[Any], tuple[Any, ...]]] = [
            (ITEM, items, (made.items.n, made.items.weight, made.items.total)),
            (PERSON, people, (voices.sides.reshape(len(people), -1), voices.ys, voices.yys)),
            (WHOLE, np.zeros(1, dtype=np.int64), (made.n, made.n_own, made.n_superseded)),
        ]
        tables = [self._widened(np.column_stack(sums)) for _, _, sums in parts]
        sums = np.concatenate(tables)
        return {
            "kind": np.repeat([kind for kind, _, _ in parts], [len(table) for table in tables]),
            "key": np.concatenate([key for _, key, _ in parts]),
            **dict(zip(_names(self.width), sums.T, strict=True)),
        }

    def _widened(self, table: Table) -> Table:
        return np.pad(table, ((0, 0), (0, self.width - table.shape[1])))

    def _community(
        self, rows: Columns, items: tuple[Any, Any], people: tuple[Any, Any]
    ) -> Community:
        """The block as a community of its own, in the order of the table's rows, nameless."""
        item, first = items
        hashes, reviewer = people
        author = rows["author"][first]
        place = np.searchsorted(hashes, author).clip(max=len(hashes) - 1)
        order = np.argsort(rows["row"])
        return Community(
            people=np.empty(len(hashes), dtype=object),
            items=np.empty(len(first), dtype=object),
            author=np.where(hashes[place] == author, place, -1),
            item=item[order],
            reviewer=reviewer[order],
            level=self.levels_of(rows["opinion"])[order],
            scale=self.scale,
            at=rows["at"][order] if "at" in rows else None,
        )


def _coded(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """The distinct values, the place of each row's among them, and a row of each."""
    found, first, code = np.unique(values, return_index=True, return_inverse=True)
    return found.astype(np.int64), code, first
