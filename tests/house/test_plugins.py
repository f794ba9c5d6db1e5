"""Plug-ins of other packages: what works is there, what is broken is named once and left out."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from peerage.council.safety import Moderators
from peerage.errors import UsageError
from peerage.registry import Registry

MODULE = "def last(*placings):\n    return {}\n"
BROKEN = {
    "absent": "no_such_module_at_all:rule",
    "lacking": "plugin_that_works:no_such_function",
    "raising": "plugin_that_raises:rule",
    "leaving": "plugin_that_exits:rule",
    "malformed": "not python!",
    "borda": "plugin_that_works:last",  # a built-in has the name
}
WORKING = {"last": "plugin_that_works:last"}


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package `some-plugin` with good and bad entry points in several groups."""
    (tmp_path / "plugin_that_works.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "plugin_that_raises.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / "plugin_that_exits.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    info = tmp_path / "some_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: some-plugin\nVersion: 1.0\n", encoding="utf-8"
    )
    points = "".join(f"{name} = {value}\n" for name, value in {**BROKEN, **WORKING}.items())
    groups = ("peerage.rules", "peerage.moderators")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n{points}" for group in groups), encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture(params=["rules", "moderators"])
def registry(request: pytest.FixtureRequest, plugin: Path) -> Registry[object]:
    """A fresh registry, as a new process has it."""
    if request.param == "moderators":
        made: Registry[object] = Moderators("rule", "peerage.moderators")  # type: ignore[assignment]
    else:
        made = Registry("rule", "peerage.rules")
    made.register("borda")(len)
    return made


def test_a_broken_plugin_takes_nothing_else_down(registry: Registry[object]) -> None:
    assert {"borda", "last"} <= set(registry.names())
    assert registry.get("borda") is len
    assert not set(registry.names()) & (set(BROKEN) - {"borda"})


def test_each_broken_plugin_is_named_once_with_its_package_and_error(
    registry: Registry[object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            registry.names()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(BROKEN)
    for name in BROKEN:
        (one,) = [line for line in told if f"'{name}'" in line]
        assert "some-plugin" in one
        assert "\n" not in one
    assert any("ZeroDivisionError: division by zero" in line for line in told)


@pytest.mark.parametrize("name", sorted(set(BROKEN) - {"borda"}))
def test_asking_for_a_broken_plugin_says_why(registry: Registry[object], name: str) -> None:
    with pytest.raises(UsageError, match="of the package some-plugin could not be loaded"):
        registry.get(name)


def test_the_command_line_works_beside_broken_plugins(plugin: Path) -> None:
    start = (
        f"import sys; sys.path.insert(0, {str(plugin)!r}); from peerage.rules import rules; "
        "rules.names(); sys.argv = ['peerage', '--help']; "
        "from peerage.doors.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert done.stderr.count("peerage: the rule 'raising' of the package some-plugin") == 1
    assert "Traceback" not in done.stderr
