"""The options of all boards as the arguments of one tool, made from the options models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo

from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
)

BoardName = Literal["models", "contributors", "reviewers", "items"]
BOARDS: dict[str, type[ModelBoardOptions | CommunityBoardOptions]] = {
    "models": ModelBoardOptions,
    "contributors": ContributorBoardOptions,
    "reviewers": ReviewerBoardOptions,
    "items": ItemBoardOptions,
}


class GivenOptions(BaseModel):
    """Options of a board, of which only those that are given are passed on."""

    model_config = ConfigDict(extra="forbid")

    def options_of(self, board: BoardName) -> ModelBoardOptions | CommunityBoardOptions:
        """The options of one board; what it does not have is refused by name."""
        return BOARDS[board](**self.model_dump(exclude_none=True))


def _argument(boards: list[str], fields: list[FieldInfo]) -> tuple[Any, Any]:
    """One optional argument, that says which boards it is for where it is not for all."""
    annotation: Any = fields[0].annotation
    for other in fields[1:]:
        annotation = annotation | other.annotation
    described = fields[0].description or ""
    where = "" if len(boards) == len(BOARDS) else f" Board of {', '.join(boards)}."
    return annotation | None, FieldInfo(default=None, description=f"{described}{where}")


def _arguments() -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys(name for one in BOARDS.values() for name in one.model_fields)
    found = {}
    for name in names:
        boards = [key for key, one in BOARDS.items() if name in one.model_fields]
        found[name] = _argument(boards, [BOARDS[key].model_fields[name] for key in boards])
    return found


_FIELDS: Any = _arguments()
BoardArguments: Any = create_model("BoardArguments", __base__=GivenOptions, **_FIELDS)
