"""A name stands for one thing: no two modules and no two classes of the package share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "peerage"


def modules(package: Path) -> Iterator[tuple[str, str]]:
    """The name and place of every module and of every package below this one."""
    for path in sorted(package.rglob("*.py")):
        if path.stem not in ("__init__", "__main__"):
            yield path.stem, str(path.relative_to(package))
        elif path.stem == "__init__" and path.parent != package:
            yield path.parent.name, str(path.parent.relative_to(package))


def classes(package: Path) -> Iterator[tuple[str, str]]:
    """The name and place of every class, wherever in its file it stands."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(package))


def twins(package: Path) -> Mapping[str, list[str]]:
    """The names that stand for more than one module, or for more than one class."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kind, named in (("module", modules(package)), ("class", classes(package))):
        for name, place in named:
            places[kind, name].append(place)
    return {name: found for (_, name), found in places.items() if len(found) > 1}


def test_no_two_modules_and_no_two_classes_share_a_name() -> None:
    assert not twins(PACKAGE), "one name, several things"


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"a/one.py": "", "b/one.py": ""}, {"one"}),
        ({"a/one.py": "", "one/__init__.py": ""}, {"one"}),
        ({"a/__init__.py": "", "b/__init__.py": ""}, set()),
        ({"a/x.py": "class K: ...", "b/y.py": "def f():\n    class K: ..."}, {"K"}),
        ({"a/x.py": "class K: ...", "b/y.py": "class L: ..."}, set()),
    ],
)
def test_a_twin_is_seen(tmp_path: Path, files: dict[str, str], names: set[str]) -> None:
    for file, text in files.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert set(twins(tmp_path)) == names
