"""What is imported is declared, what is declared is imported, and the lock agrees with both."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-dev.lock"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]

BY_CALENDAR = {"xllamacpp", "pyarrow"}  # a new number says nothing about what breaks
# Imported under a name that is no package of its own on the index.
PARTS = {
    "pydantic_core": "pydantic",
    "psycopg_pool": "psycopg",
    "opentelemetry": "opentelemetry-sdk",
}


def requirements(lines: list[str]) -> dict[str, Requirement]:
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in parsed}


CORE = requirements(PROJECT["dependencies"])
EXTRAS = requirements(
    [line for name, lines in PROJECT["optional-dependencies"].items() if name != "all"
     for line in lines]
)  # fmt: skip
DEVELOPMENT = requirements(PYPROJECT["dependency-groups"]["dev"])


def third_party_imports(text: str) -> set[str]:
    """The top-level names that a module imports from outside itself and the standard library."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"peerage"}


def distributions(imported: set[str]) -> set[str]:
    """The packages of an index that hold these modules, as far as they are installed.

    Of several that share a module, as those of OpenTelemetry do, the declared ones are meant.
    """
    known = packages_distributions()
    found: set[str] = set()
    for name in imported:
        owners = {canonicalize_name(one) for one in [PARTS.get(name)] if one} or {
            canonicalize_name(one) for one in known.get(name, [name])
        }
        found |= owners & {*CORE, *EXTRAS} or owners
    return found


@cache
def imported() -> set[str]:
    paths = (ROOT / "src" / "peerage").rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return distributions(set().union(*map(third_party_imports, texts)))


def test_every_import_is_declared() -> None:
    assert imported() - set(CORE) - set(EXTRAS) == set()


def test_every_core_dependency_is_imported() -> None:
    assert set(CORE) - imported() == set()


@pytest.mark.parametrize("requirement", [*CORE.values(), *EXTRAS.values()], ids=str)
def test_a_dependency_has_a_lower_bound_and_one_below_the_next_major_version(
    requirement: Requirement,
) -> None:
    signs = {part.operator for part in requirement.specifier}
    assert ">=" in signs
    assert "<" in signs or requirement.name in BY_CALENDAR


def test_the_lock_pins_every_dependency_to_a_version_that_is_allowed() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", LOCK.read_text(encoding="utf-8"), re.MULTILINE))
    version_by_name = {canonicalize_name(name): version for name, version in pinned.items()}
    for name, requirement in {**EXTRAS, **DEVELOPMENT, **CORE}.items():
        assert requirement.specifier.contains(version_by_name[name]), name


def test_the_lock_holds_versions_only_and_the_python_they_were_tested_on() -> None:
    comments = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if line[0] == "#"]
    pins = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", pin) for pin in pins)
    assert re.fullmatch(r"# Python 3\.\d+", comments[-1])
    assert "requirements-dev.lock" in (ROOT / "dev").read_text(encoding="utf-8")


def test_an_import_that_nobody_declared_is_seen() -> None:
    text = "import os, made_up.part\nfrom . import x\nfrom peerage import y\nfrom numpy import z"
    assert third_party_imports(text) == {"made_up", "numpy"}
    assert distributions({"made_up", "pydantic_core"}) == {"made-up", "pydantic"}
