"""Configurations of sessions whose options are given by name, for tests and benches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peerage.config.settings import CouncilSettings
from peerage.session_config import SessionConfig
from peerage.types import Rubric, Seat


def make_config(
    seats: Sequence[Seat], rubric: Rubric | None = None, **options: Any
) -> SessionConfig:
    """Return the configuration of a panel, with some options of the council."""
    return SessionConfig(tuple(seats), CouncilSettings(**options), rubric)
