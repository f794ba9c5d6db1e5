"""Words of the tree: no places on a machine, names that say what they mean, plain English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("src", "tests", "bench", "prove", "docs", ".ci")

# Homes and work folders; spelt in pieces so that this file does not name one itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/])/(?:" + "|".join(("home", "Users", "root", "work")) + r")/[\w.-]|"
    r"[A-Z]:\\" + r"Users\\"
)


def written_files() -> Iterator[Path]:
    """Every file people write here; what tools leave behind is not among them."""
    left_behind = (".db", ".git")  # a work tree has a file of the second name
    top = (path for path in ROOT.iterdir() if path.is_file())
    yield from (path for path in top if not path.name.endswith(left_behind))
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def machine_paths(text: str) -> list[str]:
    return [
        f"line {number}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]


def test_no_file_names_a_place_on_a_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in written_files()
        if (lines := machine_paths(path.read_bytes().decode("utf-8", errors="replace")))
    }
    assert not found


@pytest.mark.parametrize("top", ["home", "Users", "root", "work"])
def test_a_machine_path_is_seen_and_an_address_is_not(top: str) -> None:
    assert machine_paths(f"see /{top}/someone/notes.txt")
    assert not machine_paths(f"see https://example.org/{top}/someone and tests/{top}/x")


SAYS_NOTHING = {"found", "said", "kept", "asked"}  # found what? said by whom?


def names_given(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that code gives: to variables, fields, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def test_a_name_says_what_it_stands_for() -> None:
    empty = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in (ROOT / "src").rglob("*.py")
        for line, name in names_given(ast.parse(path.read_text(encoding="utf-8")))
        if name in SAYS_NOTHING
    ]
    assert not empty


def test_names_of_every_kind_are_seen() -> None:
    code = "class Said:\n    kept: int\ndef found(asked): pass\nfor said in (): pass"
    assert {name for _, name in names_given(ast.parse(code))} == {"Said", *SAYS_NOTHING}


# -- plain English -----------------------------------------------------------------------------

# Every sentence of the package and its documents is plain English, less the files named here, each
# of which goes from the list when it is rewritten.
DOCUMENTS = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
NOT_YET: tuple[str, ...] = ()
NOT_PLAIN = {
    "say 'is not a …', not 'is no …'": r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b)\w",
    "say what it is, not that it 'is none'": r"(?<!there )\b(?:is|are|was|were) none\b",
    "name the person or thing": r"\b(?:no|some|any)body\b|\bwho(?:m|se)?ever\b",
    "use a noun, 'and' or 'next to'": r"\b(?:beside|otherwise)\b",
    "begin with the subject": r"(?:^|[.!?:] )(?:Who|Whom|What|Whose)(?:ever)? (?![^.!]*\?)",
}
NOUN_FIRST = re.compile(r"(?:The|A|An|All|Each|Every|One|How|Whether|Where|When|Why|Around)\b")
PARTICIPLES = {"built", "given", "held", "kept", "left", "made", "meant", "seen", "sent"}
PARTICIPLES |= {"shown", "taken", "told", "written"}
VERBS = {"feed", "succeed"}  # verbs that end like participles
KNOWN_EVERYWHERE = {"shown", "meant"}  # of `errors.py`: every room uses them


def clean_files() -> list[Path]:
    """Return the files that are written in plain English."""
    modules, guides = (ROOT / "src").rglob("*.py"), (ROOT / "docs").rglob("*.md")
    files = [*sorted(modules), *sorted(guides), *(ROOT / name for name in DOCUMENTS)]
    return [path for path in files if not str(path.relative_to(ROOT)).startswith(NOT_YET)]


def sentences(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file with their lines: those of literals, or paragraphs of Markdown."""
    if suffix == ".md":
        blocks = re.split(r"(\n\s*\n|\n(?=\||#|- ))", text)
        for i in range(0, len(blocks), 2):
            heading = blocks[i].startswith("#")  # "What it assumes" is a good heading
            text = blocks[i].replace("# What ", "# ") if heading else blocks[i]
            yield "".join(blocks[:i]).count("\n") + 1, text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


SIMULATED_WORDS = "the answer rests on a plain reading"  # words of simulated answers, in any order


def not_plain(text: str, suffix: str) -> list[str]:
    """Return what is not plain English in a file, each with its line and the advice."""
    return [
        f"line {line}: {advice}: {match[0]!r} in {shown[:90]!r}"
        for line, sentence in sentences(text, suffix)
        if not sentence.lstrip().startswith(SIMULATED_WORDS)
        for advice, pattern in NOT_PLAIN.items()
        if (match := re.search(pattern, shown := re.sub(r"[\s#|]+", " ", sentence).strip()))
    ]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions of a module that are not properties."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
            "property" in ast.unparse(one) for one in node.decorator_list
        ):
            yield node


def nouns_first(tree: ast.AST) -> list[str]:
    """Return the functions whose docstring begins with a noun phrase, not with a verb."""
    return [
        f"line {node.lineno}: begin the docstring with a verb: {about.splitlines()[0]!r}"
        for node in functions(tree)
        if (about := ast.get_docstring(node) or "") and NOUN_FIRST.match(about)
    ]


def bare_participles(tree: ast.AST) -> list[str]:
    """Return the functions that are named by one participle, such as `listed`."""
    names = [(node.lineno, node.name.strip("_")) for node in functions(tree)]
    return [
        f"line {line}: {name} is not a verb"
        for line, name in names
        if (re.fullmatch(r"[a-z]+ed", name) or name in PARTICIPLES)
        and name not in VERBS | KNOWN_EVERYWHERE
    ]


@pytest.mark.parametrize("path", clean_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_written_in_plain_english(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    faults = not_plain(text, path.suffix)
    if path.suffix == ".py":
        faults += [*bare_participles(ast.parse(text)), *nouns_first(ast.parse(text))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ('"""Who has no vote is listed last."""', 1),
        ('"""Sums. What is left is dropped."""', 1),
        ("raise E(f'{x} is no number.')", 1),
        ("say('the weight is none')", 1),
        ("say('nobody answered, and whoever asked is told')", 1),
        ("say('there is no session, and there are none like it')", 0),
        ("say('it is no longer there')", 0),
        ("say('What now?')", 0),
        ("# what a comment says is not looked at", 0),
    ],
)
def test_a_sentence_that_is_not_plain_is_seen(text: str, n: int) -> None:
    assert len(not_plain(text, ".py")) == n


def test_a_sentence_of_a_document_is_seen_with_its_line() -> None:
    text = "# Title\n\nFine words.\n\n| a | b |\n| `x` | is\nno\nnumber |\n\nIt is no\nnumber.\n"
    assert [fault.split(":")[0] for fault in not_plain(text, ".md")] == ["line 6", "line 10"]


def test_a_docstring_that_begins_with_a_noun_is_seen() -> None:
    code = 'def a():\n    """The sums."""\ndef b():\n    """Return the sums."""\n'
    code += '@property\ndef c(self):\n    """The sums."""\nclass D:\n    """A sum."""'
    assert len(nouns_first(ast.parse(code))) == 1


def test_a_function_named_by_a_participle_is_seen() -> None:
    code = "def listed(): ...\ndef _made(): ...\ndef list_them(): ...\n"
    code += "@property\ndef finished(self): ...\ndef shipped_names(): ..."
    assert len(bare_participles(ast.parse(code))) == 2
