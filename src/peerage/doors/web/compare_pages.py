"""Answers of one session side by side: differences by words, and the reviews of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from functools import partial
from itertools import accumulate
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ
from peerage.doors.render.prose import prose_answer
from peerage.doors.web.session_pages import View
from peerage.doors.web.session_parts import by_rank, response_of
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError
from peerage.reports.sessions import MAX_COMPARED, ReviewOfAnswer, compare_answers
from peerage.view import Member, SessionView

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

MAX_WORDS = 4_000  # differences are marked only in shorter answers
MAX_STEPS = 3_000_000  # of a comparison: texts that repeat a few words need many more
PIECES = re.compile(r"<[^<>]*>|\s+|[^\s<]+")  # a tag of our own HTML, white space, or a word


class Side(NamedTuple):
    """One column: an answer with its differences marked, and its reviews."""

    member: Member
    rank: int | None
    html: Markup
    n_words: int
    reviews: Sequence[ReviewOfAnswer]


@router.get("/sessions/{id}/compare")
async def compare(
    request: Request,
    view: View,
    answer: Annotated[list[int], Query(max_length=50)] = [],  # noqa: B006 - nothing changes it
    of: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006
    names: str = "",
) -> Response:
    """Return two or three chosen answers in columns; without a choice, the best two."""
    answered = [one for one in by_rank(view) if response_of(view, one.name)]
    if len(answered) < 2:
        raise NotFoundError("this session has fewer than two answers to compare.")
    chosen = [one for one in answered if one.index in answer or one.name in of][:MAX_COMPARED]
    chosen += [one for one in answered if one not in chosen][: max(0, 2 - len(chosen))]
    session = view.session
    shown = {"shown": True, "hidden": False}.get(
        names, session.verdict is not None or session.finished
    )
    return await page(
        request,
        "compare.html",
        here="/sessions",
        p=view,
        shown=shown,
        sides=partial(sides_of, view, chosen),  # called where the page is rendered
        answered=answered,
        chosen=chosen,
        addresses=step_addresses(view.id, answered, chosen),
        toggled={one.index: address(view.id, toggle(answered, chosen, one)) for one in answered},
    )


def address(id: str, members: Sequence[Member]) -> str:
    """Return the address that compares these answers."""
    return f"/sessions/{id}/compare?" + "&".join(f"answer={one.index}" for one in members)


def toggle(answered: Sequence[Member], chosen: Sequence[Member], one: Member) -> list[Member]:
    """Return the selection with one answer added, or removed if at least two are left."""
    if one in chosen:
        rest = [other for other in chosen if other != one]
        return rest if len(rest) > 1 else list(chosen)
    added = [*chosen[: MAX_COMPARED - 1], one]
    return [other for other in answered if other in added]


def step_addresses(
    id: str, answered: Sequence[Member], chosen: Sequence[Member]
) -> tuple[str, str]:
    """Return the addresses with the last column moved to the next and previous answer."""
    rest = [one for one in answered if one not in chosen[:-1]]
    at = rest.index(chosen[-1])
    steps = [rest[(at + step) % len(rest)] for step in (1, -1)]
    later, earlier = (address(id, [*chosen[:-1], one]) for one in steps)
    return later, earlier


def sides_of(view: SessionView, chosen: Sequence[Member]) -> list[Side]:
    """Return the columns; each is compared with the first, and the first with the second."""
    members = {one.name: one for one in chosen}
    answers = compare_answers(view, list(members))
    texts = [str(prose_answer(one.text, one.messages)) for one in answers]
    others = [texts[1], *([texts[0]] * (len(texts) - 1))]
    return [
        Side(
            members[one.model],
            one.rank,
            marked_differences(text, other),
            one.words,
            one.reviews,
        )
        for one, text, other in zip(answers, texts, others, strict=True)
    ]


class TooManyStepsError(Exception):
    """Two texts need too many steps to be compared."""


class BoundedMatcher(SequenceMatcher[str]):
    """Compares two lists of words, and raises TooManyStepsError after MAX_STEPS.

    Each pass looks at every place of the second list where a word of the first one stands.
    """

    def __init__(self, words: Sequence[str], others: Sequence[str]) -> None:
        super().__init__(None, words, others, autojunk=False)
        positions: dict[str, list[int]] = self.b2j  # type: ignore[attr-defined]
        places = (1 + len(positions.get(word, ())) for word in words)
        self._steps_before = list(accumulate(places, initial=0))
        self._n_steps = 0

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest match of two slices, as `SequenceMatcher` does."""
        last = len(self._steps_before) - 1 if ahi is None else ahi
        self._n_steps += self._steps_before[last] - self._steps_before[alo]
        if self._n_steps > MAX_STEPS:
            raise TooManyStepsError
        return super().find_longest_match(alo, ahi, blo, bhi)


def marked_differences(html: str, other: str) -> Markup:
    """Return HTML in which words that the other text does not have at that place are marked."""
    pieces = _pieces_of(html)
    words = [piece for piece in pieces if _is_word(piece)]
    against = [piece for piece in _pieces_of(other) if _is_word(piece)]
    if max(len(words), len(against)) > MAX_WORDS:
        return Markup(html)  # noqa: S704 - made by prose
    same = [False] * len(words)
    try:
        blocks = BoundedMatcher(words, against).get_matching_blocks()
    except TooManyStepsError:
        return Markup(html)  # noqa: S704 - made by prose
    for start, _, n in blocks:
        same[start : start + n] = [True] * n
    marked, at, is_open = list[str](), 0, False
    for piece in pieces:
        is_word = _is_word(piece)
        wants = is_word and not same[at]
        at += is_word
        if is_open and not wants and not piece.isspace():
            marked.append("</mark>")
            is_open = False
        if wants and not is_open:
            marked.append("<mark>")
            is_open = True
        marked.append(piece)
    return Markup("".join(marked) + ("</mark>" if is_open else ""))  # noqa: S704 - made by prose


def _pieces_of(html: str) -> list[str]:
    """Return HTML split into tags, white space and words; a formula is one piece."""
    pieces: list[str] = []
    is_formula = False
    for piece in PIECES.findall(html):
        if is_formula:
            pieces[-1] += piece
        else:
            pieces.append(piece)
        is_formula = (is_formula or piece.startswith("<math")) and piece != "</math>"
    return pieces


def _is_word(piece: str) -> bool:
    return not piece.isspace() and not (piece.startswith("<") and not piece.startswith("<math"))
