"""The program that highlights code, apart from the process that shows it.

`highlighting` starts it and writes one JSON object per line: the code, its language, and the
processor time it may take. The reply is one line with the pieces of the code, each with a CSS class
or an empty text. A regular expression cannot be interrupted from Python, so the system ends this
program when a block takes longer. It imports nothing of Peerage, and ends when its input does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import IO, Any

N_LEXERS = 64  # kept; there are fewer languages
WINDOW = 500  # characters from its place on that one rule of a lexer may look at

# CSS classes for kinds of code; each kind is given by the start of Pygments' name for it.
CODE_CLASSES = (
    ("Token.Comment", "hl-comment"),
    ("Token.Literal.String", "hl-string"),
    ("Token.Literal.Number", "hl-number"),
    ("Token.Keyword", "hl-keyword"),
    ("Token.Operator.Word", "hl-keyword"),
    ("Token.Name.Function", "hl-name"),
    ("Token.Name.Class", "hl-name"),
    ("Token.Name.Builtin", "hl-builtin"),
    ("Token.Name.Decorator", "hl-builtin"),
    ("Token.Name.Tag", "hl-name"),
    ("Token.Generic.Deleted", "hl-deleted"),
    ("Token.Generic.Inserted", "hl-string"),
)


@lru_cache(maxsize=N_LEXERS)
def lexer_of(language: str) -> Any:
    """Return the lexer of a language, each of whose rules looks at most WINDOW characters ahead.

    Without this limit most lexers are quadratic: a rule for a comment or a blank line reads to the
    end of the text at every place, and fails.
    """
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    if hasattr(lexer, "_tokens"):
        lexer._tokens = {
            state: [(_near(match), action, following) for match, action, following in rules]
            for state, rules in lexer._tokens.items()
        }
    return lexer


def _near(match: Callable[[str, int, int], Any]) -> Callable[..., Any]:
    """Return a rule's match that sees only the next WINDOW characters."""

    def match_near(text: str, at: int, end: int = sys.maxsize) -> Any:
        return match(text, at, min(at + WINDOW, end))

    return match_near


def pieces_of(code: str, language: str) -> list[tuple[str, str]]:
    """Return code as pieces, each with the CSS class of its kind; neighbours are joined."""
    pieces: list[tuple[str, str]] = []
    for kind, text in lexer_of(language).get_tokens(code):
        name = _class_of(str(kind))
        if pieces and pieces[-1][0] == name:
            text = pieces.pop()[1] + text
        pieces.append((name, text))
    return pieces


@lru_cache(maxsize=512)
def _class_of(kind: str) -> str:
    return next((name for start, name in CODE_CLASSES if kind.startswith(start)), "")


# -- the program -----------------------------------------------------------------------------------


def serve(jobs: IO[bytes], replies: IO[bytes]) -> None:
    """Answer one line after the other until there are no more."""
    for line in jobs:
        job = json.loads(line)
        lexer_of(job["language"])  # loading a lexer takes time that its block is not to blame for
        _end_after(job["limit_s"])
        began = time.process_time()
        pieces = pieces_of(job["code"], job["language"])
        _end_after(0.0)
        reply = {"pieces": pieces, "took_s": time.process_time() - began}
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


def _end_after(limit_s: float) -> None:
    """Let the system end this program after more processor time; 0 takes that back."""
    import signal

    if hasattr(signal, "setitimer"):  # not on Windows, where only the caller's limit counts
        signal.setitimer(signal.ITIMER_PROF, limit_s)


if __name__ == "__main__":
    serve(os.fdopen(0, "rb"), os.fdopen(1, "wb"))
