"""What is imported is declared, what is declared is imported, and the lock agrees with both."""

from __future__ import annotations

import ast
import hashlib
import itertools
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from prove import _lock

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
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


HOSTS = {"pytest"}  # programs that load a plug-in of ours: there whenever it is imported

CORE = requirements(PROJECT["dependencies"])
EXTRAS = requirements(
    [line for name, lines in PROJECT["optional-dependencies"].items() if name != "all"
     for line in lines]
)  # fmt: skip


def pins(path: Path) -> dict[str, str]:
    """The version of each package in a lock."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def third_party_imports(text: str) -> set[str]:
    """The top-level names that a module imports from outside itself and the standard library."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"peerage"} - HOSTS


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


def test_each_lock_pins_what_is_declared_to_a_version_that_is_allowed() -> None:
    """And a version is the same in every file, so that all of them can be installed together."""
    wanted = _lock.requirements()
    assert {path.stem for path in LOCKS.iterdir()} == set(wanted)
    pinned = {name: pins(LOCKS / f"{name}.txt") for name in wanted}
    versions: dict[str, str] = {}
    for name, own in pinned.items():
        for package, version in own.items():
            assert name in _lock.APART or versions.setdefault(package, version) == version, package
        for requirement in requirements(wanted[name]).values():
            version = {**pinned["base"], **own}[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), requirement


def test_each_locked_package_has_hashes_and_the_python_it_was_tested_on() -> None:
    for path in sorted(LOCKS.iterdir()):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert re.fullmatch(r"# Python 3\.\d+", lines[1])
        assert lines[2][0].isalpha()
        for line, after in itertools.pairwise(lines[2:]):
            if line[0] == " ":
                assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?", line)
                assert after.startswith("    --hash=") == line.endswith("\\")
            else:
                assert re.fullmatch(r"[a-z0-9-]+==[\w.+!]+(?: ; .+)? \\", line)
        assert lines[-1].startswith("    --hash=")


def test_everything_that_is_installed_for_others_is_installed_by_hash() -> None:
    files = [ROOT / "dev", ROOT / "Dockerfile", ROOT / "action.yml"]
    for file in [*files, ROOT / "docs" / "ci" / "github-workflow.yml"]:
        text = file.read_text(encoding="utf-8").replace("\\\n", "")
        lines = [line for line in text.splitlines() if re.search(r"pip.install.*locks/", line)]
        assert lines, file
        assert all("--require-hashes" in line for line in lines)
        own = [line for line in text.splitlines() if re.search(r"install .*--no-build-iso", line)]
        assert all("--no-deps" in line for line in own)
        assert not own or "-r locks/build.txt" in text  # what builds it is locked too


def test_a_changed_file_of_another_project_is_noticed() -> None:
    """Scripts that the pages load, by the hashes of the releases that they were taken from."""
    static = ROOT / "src" / "peerage" / "doors" / "web" / "static"
    listed = (static / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    hash_by_name = {name: digest for digest, name in (line.split("  ") for line in listed)}
    vendored = {path.name for path in static.glob("*.min.js")}
    assert vendored == set(hash_by_name)
    for name, digest in hash_by_name.items():
        assert hashlib.sha256((static / name).read_bytes()).hexdigest() == digest, name


def test_an_import_that_nobody_declared_is_seen() -> None:
    text = "import os, made_up.part\nfrom . import x\nfrom peerage import y\nfrom numpy import z"
    assert third_party_imports(text) == {"made_up", "numpy"}
    assert distributions({"made_up", "pydantic_core"}) == {"made-up", "pydantic"}
