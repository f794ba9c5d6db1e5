"""Promises that can be checked: `./dev prove NAME` runs one kind, a line for each promise.

A kind is a module of this package with `run(quick) -> Iterator[Line]`. It calls the functions that
tests call, only more often; its quick form is a test.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One promise, how often it was tried, what came of it, and whether it held."""

    name: str
    n: int
    measured: str
    ok: bool
