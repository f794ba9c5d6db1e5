"""The site builds from a clone without a warning, and has a page for what the code offers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peerage.biases import metrics
from peerage.doors.cli import app
from tests.conftest import SITE

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.needs("site")
def test_the_site_builds_without_a_warning_and_lists_commands_routes_and_metrics(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SITE), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"peerage {name}" in commands for name in app if not name.startswith("-"))
    assert "/api/sessions" in (tmp_path / "reference" / "http.html").read_text(encoding="utf-8")
    listed = (tmp_path / "reference" / "metrics.html").read_text(encoding="utf-8")
    assert all(name in listed for name in metrics.names())
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(tmp_path).with_suffix(".md") for path in tmp_path.rglob("*.html")}
    left_out = {path for path in pages - built if path.name != "README.md"}
    assert left_out == {Path("recording.md")}
