"""A hearing whose opinions stay on a cluster: sums come here, and rows only where they must."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from peerage.community.hearing import Asked, Hearing, seconds
from peerage.engines import Engine, Source

if TYPE_CHECKING:
    from peerage.boards.items import ItemSums
    from peerage.boards.opinions import Coefficients, Community
    from peerage.boards.reviewers import Alignment
    from peerage.boards.rings import Rings
    from peerage.boards.tally import Tally
    from peerage.engines.tallies import Cluster


def is_afar(engine: Engine, asked: Asked) -> bool:
    """Whether sums will do, on an engine that has them made where the opinions are.

    A reputation found from the opinions, and flagged rings, need to know who said what.
    """
    return hasattr(engine, "sums") and asked.reputation == "fixed" and not asked.without_flagged


class Afar(Hearing):
    """The boards of opinions of which only sums come here; rings are sought among rows."""

    def __init__(
        self,
        engine: Engine,
        opinions: Source,
        users: Source | None = None,
        *,
        items: Source | None = None,
        asked: Asked | None = None,
    ) -> None:
        from peerage.boards.opinions import decay, of_category
        from peerage.engines.opinions import read_roll
        from peerage.engines.tallies import latest, rows_afar

        self.asked = asked or Asked()
        self.coefficients = self.asked.coefficients
        self._cluster = cast("Cluster", engine)
        self._roll = read_roll(
            engine, opinions, items, users, scale=self.coefficients.scale, categories=True
        )
        now = latest(self._cluster, self._roll.frame)
        members = self._timed(opinions, now)
        self.flags = list(members.flags)
        if self.asked.category is not None and members.n_items:
            members = of_category(members, self.asked.category)
        self._rows = rows_afar(self._cluster, self._roll, members, now)
        self.as_of = seconds(self.asked.as_of)
        if self.as_of is None:
            self.as_of = now if self.asked.category is None else latest(self._cluster, self._rows)
        if self.asked.half_life_days is not None and len(self._roll.item_hash):
            decay(members, self.asked.half_life_days, self.as_of)  # refuses here what it must
        self.community = members

    def _timed(self, opinions: Source, now: float | None) -> Community:
        """The members, and what is odd about the times of what they said."""
        import narwhals.stable.v2 as nw
        import numpy as np

        from peerage.community.odd_times import flags_of_times
        from peerage.engines.opinions import with_opinions

        members = self._roll.members
        if now is None:
            return members
        odd = members = replace(members, at=np.zeros(0))
        clock = time.time()
        if now > clock:
            late = self._roll.frame.filter(nw.col("at") > clock)
            odd = with_opinions(self._cluster, replace(self._roll, frame=late))
        flags = flags_of_times(self._cluster, opinions, odd, clock)
        return replace(members, flags=(*members.flags, *flags))

    @cached_property
    def tally(self) -> Tally:
        from peerage.boards.tally import Terms
        from peerage.engines.tallies import tally_afar
        from peerage.reports import span_s

        asked = self.asked
        terms = Terms(
            self.coefficients, asked.literal, asked.half_life_days, span_s(asked.since), self.as_of
        )
        return tally_afar(self._cluster, self._roll, self._rows, self.community, terms)

    @cached_property
    def sums(self) -> ItemSums:
        return self.tally.items

    @cached_property
    def alignment(self) -> Alignment:
        from peerage.boards.reviewers import aligned

        return aligned(self.tally.voices, self.community.scale)

    @cached_property
    def rings(self) -> Rings:
        return self._near.rings

    def under(self, coefficients: Coefficients) -> Hearing:
        return self._near.under(coefficients)

    @cached_property
    def _near(self) -> Hearing:
        """The same hearing with every opinion here."""
        from peerage.engines.opinions import with_opinions

        return Hearing(with_opinions(self._cluster, self._roll), self.asked)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {
            "opinions": self.tally.n,
            "own_left_out": self.tally.n_own,
            "superseded_left_out": self.tally.n_superseded,
        }
