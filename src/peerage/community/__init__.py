"""The read side of a community: tables of opinions, items and users in; boards and rings out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from peerage.community.hearing import Asked, Hearing
from peerage.community.outside import compared, read_outside, tuned
from peerage.engines import Engine, Source, engines
from peerage.errors import UsageError

if TYPE_CHECKING:
    from peerage.boards import Board
    from peerage.boards.opinions import Community
    from peerage.boards.rings import Rings

__all__ = [
    "Asked",
    "Hearing",
    "asked_for",
    "board_contributors",
    "board_items",
    "board_reviewers",
    "compared",
    "find_rings",
    "hear",
    "read",
    "read_outside",
    "tuned",
]


def hear(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    **asked: Any,
) -> Hearing:
    """The tables as a hearing, from which every board of this community can be had.

    The keywords are the fields of `Asked`.
    """
    wanted = asked_for(**asked)
    return Hearing(read(opinions, users, items=items, engine=engine, asked=wanted), wanted)


def asked_for(**asked: Any) -> Asked:
    """An `Asked`; a name that it does not have is refused."""
    unknown = sorted(asked.keys() - Asked.__dataclass_fields__.keys())
    if unknown:
        raise UsageError(
            f"community boards take no {', '.join(unknown)}.",
            hint=f"Known: {', '.join(Asked.__dataclass_fields__)}.",
        )
    return Asked(**asked)


def read(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    asked: Asked | None = None,
) -> Community:
    """The tables as one encoded community, whole, and what is odd about its times."""
    from peerage.community.odd_times import flags_of_times
    from peerage.engines.opinions import read_community

    wanted = asked or Asked()
    runner = engines.get(engine)() if isinstance(engine, str) else engine
    community = read_community(
        runner,
        opinions,
        items,
        users,
        scale=wanted.coefficients.scale,
        categories=True,
    )
    odd = flags_of_times(runner, opinions, community, time.time())
    return replace(community, flags=(*community.flags, *odd))


def board_contributors(opinions: Source, users: Source | None = None, **asked: Any) -> Board:
    """The contributors' board of any `opinions` table; keywords as for `hear`."""
    return hear(opinions, users, **asked).contributors()


def board_reviewers(opinions: Source, users: Source | None = None, **asked: Any) -> Board:
    """The reviewers' board of any `opinions` table; keywords as for `hear`."""
    return hear(opinions, users, **asked).reviewers()


def board_items(opinions: Source, users: Source | None = None, **asked: Any) -> Board:
    """The items' board of any `opinions` table; keywords as for `hear`."""
    return hear(opinions, users, **asked).items()


def find_rings(opinions: Source, users: Source | None = None, **asked: Any) -> Rings:
    """Voting rings among any `opinions`; keywords as for `hear`."""
    return hear(opinions, users, **asked).rings
