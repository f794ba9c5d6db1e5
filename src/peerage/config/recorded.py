"""The options of a session as its log keeps them, written and read back."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from peerage.config.settings import CouncilSettings
from peerage.errors import UnreadableError
from peerage.events import Opened

DEFAULTS = CouncilSettings()
# The opening event keeps these two in fields of their own: the seed that was drawn, and the budget
# of this session alone.
OWN_FIELDS = {"seed", "budget_usd"}
IMPORTED = "imported"  # the order of ballots that were not dealt here


def options_record(council: CouncilSettings) -> dict[str, Any]:
    """Return the options that differ from their defaults, as JSON for the log."""
    return council.model_dump(mode="json", exclude=OWN_FIELDS, exclude_defaults=True)


def recorded_option(opened: Opened, name: str) -> Any:
    """Return an option that a session was opened with, or None if its log does not say.

    An option that the record lacks had its default. Logs of earlier versions, and imported
    sessions, keep a few options only.
    """
    if opened.options is not None:
        return opened.options.get(name, getattr(DEFAULTS, name))
    return getattr(opened.law, name, None) if opened.law is not None else None


def recorded_council(opened: Opened, current: CouncilSettings) -> CouncilSettings:
    """Return the options that a session was opened with; the current ones fill in unknown ones."""
    names = CouncilSettings.model_fields.keys() - OWN_FIELDS
    values = {name: recorded_option(opened, name) for name in names}
    if opened.options is None:
        values = {
            name: value for name, value in values.items() if value not in (None, "", IMPORTED)
        }
        if opened.law is not None:
            values["rubric"] = opened.law.rubric or False
        return current.model_copy(update=values)
    try:
        checked = CouncilSettings(**values)
    except ValidationError as error:
        name = ".".join(map(str, error.errors()[0]["loc"]))
        raise UnreadableError(f"the recorded option {name} has an unknown value.") from None
    return checked.model_copy(update={name: getattr(current, name) for name in OWN_FIELDS})
