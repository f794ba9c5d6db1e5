"""How much work the texts of others may cause on one page; the rest of a page is shown plain.

Rendering takes time in proportion to a text, but a mark of Markdown, a cell of a table and a
character of a formula cost much more than a word. So each has a price, and a page has one budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Prices, in about a microsecond of a slow machine.
PAGE_WORK = 500_000
MARK_WORK = 8  # a character that is neither a letter, a digit nor a space
CELL_WORK = 12  # of a table
FORMULA_WORK, FORMULA_CHARACTER_WORK = 500, 15

MAX_CODE = 20_000  # highlighted characters
CODE_S = 0.5  # of processor time for highlighting

WORDS = re.compile(r"[^\W_]+| +")


@dataclass(slots=True)
class PageWork:
    """The work that is left for the texts of one page."""

    work: int = PAGE_WORK
    code: int = MAX_CODE
    code_s: float = CODE_S

    def pay(self, price: int) -> bool:
        """Take the price of some work; if it is more than what is left, nothing is taken."""
        if price > self.work:
            return False
        self.work -= price
        return True

    def pay_text(self, text: str) -> bool:
        """Take the price of reading a text as Markdown."""
        return self.pay(MARK_WORK * len(WORDS.sub("", text)))

    def pay_formula(self, tex: str) -> bool:
        """Take the price of a formula."""
        return self.pay(FORMULA_WORK + FORMULA_CHARACTER_WORK * len(tex))


_work: ContextVar[PageWork | None] = ContextVar("peerage_page_work", default=None)


def page_work() -> PageWork:
    """Return what is left for the page that is being rendered; a new budget outside of a page."""
    return _work.get() or PageWork()


@contextmanager
def one_page() -> Iterator[None]:
    """Let all texts that the block renders share one budget."""
    token = _work.set(PageWork())
    try:
        yield
    finally:
        _work.reset(token)
