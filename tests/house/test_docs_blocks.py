"""Blocks of documents that are no commands: configuration loads, data parses, Python has its names.

test_python_docs.py runs the Python of pages; test_docs_run.py runs that which needs a server.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from peerage import config
from tests.house.test_docs import DOCUMENTS, FENCE, ROOT
from tests.plugin.test_example import PROJECT, install

BLOCKS = [
    (path.relative_to(ROOT), language, block)
    for path in DOCUMENTS
    for language, block in FENCE.findall(path.read_text("utf-8"))
]
# TOML that is not for `peerage.toml`, by its first line.
NOT_CONFIGURATION = {
    "[project]": "the package of a plug-in",
    "[[rule]]": "a policy of Gemini's command line",
}
PLUG_INS = Path("docs/extending.md")
PANEL = ("sonnet", "gpt", "gemini")


def of(wanted: str, *but: Path) -> list[object]:
    """The blocks of a language, as parameters that name their page."""
    return [
        pytest.param(block, id=f"{page}-{i}")
        for i, (page, language, block) in enumerate(BLOCKS)
        if language == wanted and page not in but
    ]


def with_panel(block: str) -> str:
    """A part of a configuration, with seats that answer if it has none or too few of them."""
    written = tomllib.loads(block)
    if isinstance(written.get("seat"), list) and "[[seat]]" not in block:
        return block
    names = {seat["name"] for seat in written.get("seat", [])}
    missing = (name for name in PANEL if name not in names)
    seats = (f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n' for name in missing)
    return "\n".join([block, *seats])


@pytest.mark.parametrize("block", of("toml", PLUG_INS))
def test_a_configuration_of_a_document_loads(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.startswith(tuple(NOT_CONFIGURATION)):
        assert tomllib.loads(block)
        return
    file = tmp_path / "peerage.toml"
    file.write_text(with_panel(block), "utf-8")
    assert len(config.load(file, environ={}).seats) >= len(PANEL)


def test_a_configuration_for_a_plug_in_loads_where_it_is_installed(tmp_path: Path) -> None:
    """In a Python of its own, since extensions are looked for once."""
    install(tmp_path, PROJECT["entry-points"])
    (tmp_path / "peerage_example").symlink_to(ROOT / "tests/plugin/peerage_example")
    blocks = [block for page, language, block in BLOCKS if (page, language) == (PLUG_INS, "toml")]
    kept = [with_panel(block) for block in blocks if not block.startswith(tuple(NOT_CONFIGURATION))]
    for i, block in enumerate(kept):
        (tmp_path / f"{i}.toml").write_text(block, "utf-8")
    code = "import sys; from peerage import config; [config.load(file) for file in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", code, *(f"{i}.toml" for i in range(len(kept)))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_exception_is_the_beginning_of_a_block() -> None:
    for start in NOT_CONFIGURATION:
        assert any(block.startswith(start) for _, language, block in BLOCKS if language == "toml")


@pytest.mark.parametrize("block", of("json"))
def test_json_of_a_document_is_json(block: str) -> None:
    """Some blocks show a file with a line for each object."""
    try:
        json.loads(block)
    except json.JSONDecodeError:
        assert [json.loads(line) for line in block.splitlines()]


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_of_a_document_is_yaml(block: str) -> None:
    assert yaml.safe_load(block)


def imported(block: str) -> list[tuple[str, str]]:
    """The modules of the imports of some code, each with a name that it should have.

    An argument named peerage is the fixture of the pytest plug-in, and not the package.
    """
    names = []
    tree = ast.parse(block)
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    of_fixture = {
        id(part)
        for test in tests
        if any(one.arg == "peerage" for one in test.args.args)
        for part in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in of_fixture and isinstance(node, ast.Attribute):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [(node.module, one.name) for one in node.names]
        elif isinstance(node, ast.Import):
            names += [(one.name, "__name__") for one in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names += [("peerage", node.attr)] if node.value.id == "peerage" else []
    return names


@pytest.mark.parametrize("block", of("python"))
def test_what_python_of_a_document_imports_is_there(block: str) -> None:
    """Packages that are not installed are clients, whose programs tests/clients runs."""
    for module, name in imported(block):
        if importlib.util.find_spec(module.partition(".")[0]):
            assert hasattr(importlib.import_module(module), name), (module, name)
