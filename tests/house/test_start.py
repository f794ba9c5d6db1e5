"""The tutorial and the guides run as they stand: commands print the block of text below them.

`python -m tests.house.test_start` runs them and writes the texts anew; `… gate.md` runs one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "start.md", *sorted((DOCS / "guides").glob("*.md"))]
STEP = re.compile(
    r"(?<=^```sh\n)((?:(?!```).)*?)(^```\n\n```text\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL
)
CHANGING = (  # ids and times differ from run to run
    (re.compile(r"\b[0-9a-f]{16}\b"), "0123456789abcdef"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "2026-11-18T06:30:21Z"),
    (re.compile(r"sha256:[0-9a-f]{12}"), "sha256:0123456789ab"),
)


def without_changing(text: str) -> str:
    for pattern, shown in CHANGING:
        text = pattern.sub(shown, text)
    return text


def output_of(commands: str, folder: Path) -> str:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PEERAGE_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run(
        [shell, "-eu", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return without_changing("".join(line.rstrip() + "\n" for line in done.stdout.splitlines()))


def with_outputs(page: str, folder: Path) -> str:
    """The page with what its commands print, run one after the other in one folder."""
    return STEP.sub(lambda step: f"{step[1]}{step[2]}{output_of(step[1], folder)}", page)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_step_of_a_guide_prints_what_the_page_shows(path: Path, tmp_path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert STEP.search(page)
    assert with_outputs(page, tmp_path) == page


def test_every_step_of_the_tutorial_shows_its_output() -> None:
    page = PAGES[0].read_text(encoding="utf-8")
    assert len(STEP.findall(page)) == page.count("```sh")


if __name__ == "__main__":
    for written in PAGES:
        if written.name in sys.argv[1:] or not sys.argv[1:]:
            with tempfile.TemporaryDirectory() as place:
                text = with_outputs(written.read_text(encoding="utf-8"), Path(place))
            written.write_text(text, encoding="utf-8")
