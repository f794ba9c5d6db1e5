"""Models that clients can ask for: the council, parts of its panel, and presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerage.doors.http.problems import UnknownNameError
from peerage.errors import meant, shown
from peerage.types import Seat

MODEL = "council"
CREATED = 0  # the format requires a date, and a council has none
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The seats and the kind of verdict that a model's name stands for."""

    seats: tuple[str, ...] = ()  # empty: all seats
    verdict: str | None = None  # None: as configured
    is_quick: bool = False  # one seat answers


PRESETS: Mapping[str, tuple[ModelChoice, str]] = {
    "debate": (
        ModelChoice(verdict="debate"),
        "The whole panel; the verdict says where the models agree and disagree.",
    ),
    "quick": (ModelChoice(is_quick=True), "One seat answers; no session is stored."),
}


@dataclass(frozen=True, slots=True)
class CouncilModels:
    """The seats and named panels of a server, as models.

    `council/NAME` is a seat, a named panel or a preset, in this order; `council/a,b` lists seats.
    """

    seats: Sequence[Seat]
    panels: Mapping[str, tuple[str, ...]]

    def list_models(self) -> list[Json]:
        """Return the models that clients list: the council, presets and named panels."""
        about = {f"{MODEL}/{name}": text for name, (_, text) in self._presets().items()}
        for name, seats in self.panels.items():
            about[f"{MODEL}/{name}"] = f"The panel {name}: {', '.join(seats)}."
        return [_model(MODEL, "The whole panel."), *(_model(*one) for one in about.items())]

    def read(self, name: str) -> Json:
        """Return one model by its name; raise an error if there is none."""
        self.choice(name)
        return next((one for one in self.list_models() if one["id"] == name), _model(name))

    def choice(self, model: str) -> ModelChoice:
        """Return the choice for a model's name; raise an error if there is no such model."""
        council, slash, listed = model.partition("/")
        if council != MODEL:
            raise UnknownNameError(
                f"there is no model {shown(model)}.",
                param="model",
                code="model_not_found",
                hint=f"Use {MODEL}, or {MODEL}/{','.join(s.name for s in self.seats[:3])}.",
            )
        if not slash:
            return ModelChoice()
        if listed in self.panels and all(seat.name != listed for seat in self.seats):
            return ModelChoice(self.panels[listed])
        if listed in (presets := self._presets()):
            return presets[listed][0]
        return ModelChoice(tuple(self.seat_named(one.strip()) for one in listed.split(",")))

    def seat_named(self, name: str) -> str:
        """Return the seat with this name or this model."""
        for seat in self.seats:
            if name and name in (seat.name, seat.model):
                return seat.name
        known = [*(seat.name for seat in self.seats), *self.panels, *self._presets()]
        raise UnknownNameError(
            f"there is no seat or panel {shown(name)}.",
            param="model",
            code="model_not_found",
            hint=meant(name, known),
        )

    def _presets(self) -> dict[str, tuple[ModelChoice, str]]:
        """Return the presets whose names no seat or panel has."""
        taken = {*(seat.name for seat in self.seats), *self.panels}
        return {name: preset for name, preset in PRESETS.items() if name not in taken}


def _model(name: str, description: str = "") -> Json:
    model = {"id": name, "object": "model", "created": CREATED, "owned_by": "peerage"}
    return {**model, "description": description} if description else model
