"""Nothing unreachable: a door, a public name or a registry leads to every module and function."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
STARTS = (
    "peerage",
    "peerage.__main__",
    "peerage.plugins",
    "peerage.doors.cli",
    "peerage.doors.pytest_plugin",  # an entry point
)
PLAIN = (
    "dataclass",
    "cache",
    "lru_cache",
    "contextmanager",
    "asynccontextmanager",
    "total_ordering",
)
# Python calls these two when the package is asked for a name.
CALLED_BY_PYTHON = ("__getattr__", "__dir__")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Trees = dict[str, ast.Module]


def parsed(sources: Path) -> Trees:
    """The syntax tree of every module by its dotted name, a package's own for an `__init__`."""
    trees = {}
    gc.disable()  # Python 3.11 gives up on a tree if the collector runs while it is built
    try:
        for path in sources.rglob("*.py"):
            parts = path.relative_to(sources).with_suffix("").parts
            trees[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()
    return trees


def named(module: str) -> str:
    return module.removesuffix(".__init__")


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """Every module that one may import, also by a text such as "peerage.scoring"."""
    package = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def is_registry(module: str, tree: ast.Module) -> bool:
    """Whether a package makes a registry, which loads every module of the package."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = any(isinstance(function, ast.Name) and function.id == "Registry" for function in calls)
    return made and module.endswith(".__init__")


def orphans(trees: Trees) -> list[str]:
    """The modules that nothing leads to."""
    by_name = {named(module): module for module in trees}
    reached: set[str] = set()
    ahead = list(STARTS)
    while ahead:
        name = ahead.pop()
        if name in reached or name not in by_name:
            continue
        reached.add(name)
        module = by_name[name]
        ahead.append(name.rpartition(".")[0])
        ahead += imported(module, trees[module])
        if is_registry(module, trees[module]):
            ahead += [other for other in by_name if other.rpartition(".")[0] == name]
    return sorted(by_name.keys() - reached)


def definitions(tree: ast.Module) -> Iterator[Definition]:
    """The functions and classes at the top of a module that no decorator hands to a registry."""
    for node in tree.body:
        if isinstance(node, Definition) and all(map(is_plain, node.decorator_list)):
            yield node


def is_plain(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in PLAIN


def words(tree: ast.AST) -> Iterator[str]:
    """Every name that is spoken of: read, imported, or an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(
                r"^\w+$|\w+(?=\[)|(?<=\[)\w+|(?<=\w:)\w+$", node.value
            )  # a type in quotes, say


def unused(trees: Trees) -> list[str]:
    """The functions and classes that nothing but themselves speaks of."""
    public = public_names(trees)
    spoken: dict[str, int] = {}
    for tree in trees.values():
        for word in words(tree):
            spoken[word] = spoken.get(word, 0) + 1
    return sorted(
        f"{named(module)}.{node.name}"
        for module, tree in trees.items()
        for node in definitions(tree)
        if node.name not in {*public, *CALLED_BY_PYTHON}
        and spoken.get(node.name, 0) == sum(word == node.name for word in words(node))
    )


def public_names(trees: Trees) -> set[str]:
    """Return what `peerage.__all__` and `peerage.plugins.__all__` list."""
    fronts = (trees.get(name) for name in ("peerage.__init__", "peerage.plugins"))
    return {
        name
        for front in fronts
        if front is not None
        for node in front.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    }


def test_every_module_is_reached() -> None:
    found = orphans(parsed(SOURCES))
    assert not found, "no door, public name or registry leads to:\n" + "\n".join(found)


def test_every_function_and_class_is_used() -> None:
    found = unused(parsed(SOURCES))
    assert not found, "nothing in src uses:\n" + "\n".join(found)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "__init__.py": 'HOMES = {"score": "peerage.scoring"}\n__all__ = ["score"]\n',
        "__main__.py": "from peerage.doors.cli import main\nmain()\n",
        "doors/__init__.py": "",
        "doors/cli/__init__.py": "from peerage.rules import rules\ndef main(): rules.names()\n",
        "scoring.py": "def score(): ...\n",
        "rules/__init__.py": (
            'from peerage.registry import Registry\nrules = Registry("rule", "peerage.rules")\n'
        ),
        "rules/borda.py": '@rule("borda")\ndef borda(): ...\n',
        "registry.py": "class Registry: ...\n",
    }
    for name, text in files.items():
        path = tmp_path / "peerage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_what_doors_public_names_and_registries_lead_to_is_reached(tree: Path) -> None:
    assert orphans(parsed(tree)) == []
    assert unused(parsed(tree)) == []


@pytest.mark.parametrize(
    ("file", "text", "lost", "idle"),
    [
        ("attic.py", "", ["peerage.attic"], []),
        ("stats/tails.py", "def t(): ...\n", ["peerage.stats.tails"], ["peerage.stats.tails.t"]),
        ("rules/elo.py", "def _odds(): return _odds()\n", [], ["peerage.rules.elo._odds"]),
        ("rules/elo.py", "@dataclass\nclass Match: ...\n", [], ["peerage.rules.elo.Match"]),
        ("rules/elo.py", "def k(): ...\nK = k()\n", [], []),
    ],
)  # fmt: skip
def test_an_orphan_and_an_unused_function_are_seen(
    tree: Path, file: str, text: str, lost: list[str], idle: list[str]
) -> None:
    path = tree / "peerage" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    assert orphans(parsed(tree)) == lost
    assert unused(parsed(tree)) == idle
