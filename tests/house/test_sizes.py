"""Code that is read before it is trusted stays small: council, its reader and its safety gate.

A line of code is one on which a token of code stands or goes on: blank lines, comments and
docstrings do not count.
"""

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNCIL = ROOT / "src" / "peerage" / "council"
READING = ("replies.py", "test_seals.py", "test_ballots.py", "test_labels.py", "test_foreign.py")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(source: str) -> int:
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = (token for token in tokens if token.type not in NO_CODE)
    lines = {n for token in code for n in range(token.start[0], token.end[0] + 1)}
    return len(lines - docstrings)


def test_blank_lines_comments_and_docstrings_are_not_counted():
    function = 'def f():\n    """Doc.\n\n    More."""\n    return X\n'
    source = f'"""Doc."""\n\n# why\nX = """a\nb"""\n\n\n{function}'
    assert lines_of_code(source) == 4


@pytest.mark.parametrize(
    ("files", "most"),
    [
        (sorted(COUNCIL.rglob("*.py")), 2_100),
        ([COUNCIL / "seals.py", COUNCIL / "ballots.py"], 520),
        ([COUNCIL / "safety.py"], 200),
    ],
    ids=["council", "reader", "safety gate"],
)
def test_what_decides_over_votes_is_short(files, most):
    assert sum(lines_of_code(path.read_text(encoding="utf-8")) for path in files) <= most


def test_the_tests_of_reading_are_short():
    folder = ROOT / "tests" / "council"
    assert sum(len((folder / name).read_text().splitlines()) for name in READING) <= 1_500
