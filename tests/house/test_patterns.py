"""Every regular expression takes time linear in the text, whatever the text is.

Each pattern of the package is found, and run on texts that are made of what it looks for. A
pattern that only sees our own text is held to the same: nothing says that it stays that way.
"""

import ast
import importlib
import re
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

import peerage
from peerage.council import fences, safety, seals
from peerage.council.dissent import with_names
from peerage.providers.redaction import Redactor
from peerage.reports import requirements
from peerage.types import Ballot, Response, Slot
from tests.growth import LARGE_SIZES, SIZES, hard_texts, is_linear, read_by

PACKAGE = Path(peerage.__file__).parent
METHODS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}
N_IN_FULL = 40  # texts for each pattern in the long run

# Such patterns once read queries and values of settings.
QUADRATIC = [
    re.compile(rb"(?:^|&)[a-z][a-z-]*-[a-z-]*(?==|&|$)"),
    re.compile(r"(?=[^\W_]*\d)(?=[^\W_]*[a-zA-Z])[^\W_]{20,}"),
]


def postgres_words():
    pytest.importorskip("psycopg")
    from peerage.stores.postgres import PROBLEMS

    return [re.compile(words) for words, *_ in PROBLEMS]


# Patterns that functions make, by their file: how many calls of `re` make one, and examples.
MADE_IN_FUNCTIONS = {
    "council/ballots.py": (1, lambda: [re.compile("[>≻]"), re.compile(",")]),
    "council/fences.py": (2, lambda: [*fences._patterns("0123456789ab")]),
    "council/seals.py": (
        3,
        lambda: [
            re.compile(f"[{seals.QUOTES}]"),
            re.compile(seals.opening("0123456789ab", f"[{seals.QUOTES}]?", f"[{seals.QUOTES}]")),
        ],
    ),
    "providers/simulated.py": (1, lambda: [re.compile("0123456789ab(?:[0-9a-f]{12})*")]),
    "council/dissent.py": (2, list),  # read through `with_names`, below
    "council/safety.py": (
        1,
        lambda: [safety.compile_phrase(phrase) for phrase in safety.PATTERNS.values()],
    ),
    "providers/redaction.py": (1, lambda: [Redactor("sk-abcdef0123456789")._start]),
    "stores/postgres.py": (1, postgres_words),
}


@cache
def calls_of_re():
    """Each call of `re` in the package: its file, its pattern, and whether a function makes it."""
    calls = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        later = {id(n) for one in tree.body if isinstance(one, kinds) for n in ast.walk(one)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) == "re" and node.func.attr in METHODS:
                name = path.relative_to(PACKAGE).as_posix()
                calls.append((name, node.args[0], id(node) in later))
    return calls


def inside(value):
    """The patterns in a module's value, and in the containers and dataclasses it is made of."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from inside([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for member in value:
            yield from inside(member)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from inside([getattr(value, field.name, None) for field in fields(value)])


@cache
def all_patterns():
    """Every pattern of the package, each once."""
    found = []
    for file in sorted({file for file, *_ in calls_of_re()}):
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            module = importlib.import_module(f"peerage.{name}")
        except ModuleNotFoundError:  # of an extra that this machine does not have
            continue
        found += inside(list(vars(module).values()))
    literals = [one.value for _, one, _ in calls_of_re() if isinstance(one, ast.Constant)]
    found += map(re.compile, literals)
    for _, make in MADE_IN_FUNCTIONS.values():
        found += make()
    return list({(one.pattern, one.flags): one for one in found}.values())


# Patterns that are tried at one place of a text, and one whose text is cut before it is read.
ANCHORED = {
    one.pattern
    for one in (seals.THINKING, seals.FENCED, *seals.STRINGS.values(), requirements.TOKEN)
}
CUT = {safety.SENTENCE_END}


def slow_text(pattern, sizes, **how_many):
    if pattern in CUT:
        return None
    work = pattern.match if pattern.pattern in ANCHORED else read_by(pattern)
    texts = hard_texts(pattern, **how_many)
    return next((text for text in texts if not is_linear(work, *text, sizes)), None)


def test_every_pattern_is_looked_at():
    """A pattern that a function makes is listed; the others are found by themselves."""
    made = Counter(name for name, one, is_later in calls_of_re() if is_later and _is_made(one))
    assert made == {name: n for name, (n, _) in MADE_IN_FUNCTIONS.items()}
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"from re import|import re as|import regex", source), path
    assert len(all_patterns()) > 100


def _is_made(argument):
    return not isinstance(argument, ast.Constant)


def test_every_pattern_takes_time_linear_in_the_text():
    slow = {one.pattern: text for one in all_patterns() if (text := slow_text(one, SIZES))}
    assert slow == {}


@pytest.mark.slow
def test_every_pattern_takes_time_linear_in_100_kb():
    patterns = all_patterns()
    slow = {
        one.pattern: text for one in patterns if (text := slow_text(one, LARGE_SIZES, n=N_IN_FULL))
    }
    assert slow == {}


@pytest.mark.parametrize("pattern", QUADRATIC, ids=lambda one: str(one.pattern[:30]))
def test_a_pattern_that_is_quadratic_is_found(pattern):
    assert slow_text(pattern, SIZES) is not None


@pytest.mark.parametrize("unit", ["Responses A and ", "Response A, B", " ", "A or ", "responses "])
def test_names_are_put_into_a_quote_in_linear_time(unit):
    ballot = Ballot("r", tuple(Slot(label, f"m{label}") for label in "AB"))
    for start in ("", "Responses A", "Response "):
        assert is_linear(lambda text: with_names(text, ballot), start, unit, LARGE_SIZES)


@pytest.mark.parametrize("unit", ["!", "…!", ".\n", "!? ", ";", "- "])
def test_answers_are_screened_in_linear_time(unit):
    def screen(text):
        safety.screen([Response("m", text)])

    assert is_linear(screen, "How to make a bomb", unit, LARGE_SIZES)


@pytest.mark.parametrize("unit", ['"', "'", "\\a", "`\n", " ", "{", '{"ballot": "0123456789ab", '])
def test_replies_are_read_in_linear_time(unit):
    def read(text):
        seals.find_sealed(text, "0123456789ab", "")

    assert is_linear(read, '{"ballot": "0123456789ab", "notes": "', unit, LARGE_SIZES)
