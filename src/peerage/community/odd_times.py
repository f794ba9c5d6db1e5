"""Times that can be read and may yet be mistakes: in the future, or in several zones."""

from __future__ import annotations

import numpy as np

from peerage.boards.opinions import Community
from peerage.engines import Engine, Source
from peerage.engines.intake import zones_of

N_SHOWN = 10


def flags_of_times(
    engine: Engine, opinions: Source, community: Community, now: float
) -> tuple[str, ...]:
    """What is odd about when opinions were given: a name, how many, and the first ten."""
    at = community.at
    if at is None:
        return ()
    flags = []
    if at.max(initial=-np.inf) > now:
        late = np.flatnonzero(at > now)
        told = (
            f"{community.people[community.reviewer[row]]} on {community.items[community.item[row]]}"
            for row in late[:N_SHOWN]
        )
        flags.append(f"opinions_in_the_future:{len(late)}: {', '.join(told)}")
    if zones := zones_of(engine, opinions):
        flags.append(f"times_in_several_zones:{len(zones)}: {', '.join(zones)}")
    return tuple(flags)
