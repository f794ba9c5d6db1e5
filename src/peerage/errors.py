"""One base error with a hint; the leaves say what a user did."""

from __future__ import annotations


class PeerageError(Exception):
    """Something a person can put right: what is wrong, where, and what to do."""

    exit_code = 2

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class UsageError(PeerageError):
    """A command or call was given something it does not take."""


class ConfigError(PeerageError):
    """The configuration says something impossible."""


class InputError(PeerageError):
    """A file or value to be read is not what it should be."""


class UnreadableError(InputError):
    """A stored session holds something that no session writes; the others are not concerned."""


class MissingExtraError(PeerageError):
    """A feature needs a package that is not installed."""


class BudgetError(PeerageError):
    """The money that was set aside does not cover the next call."""

    exit_code = 4
