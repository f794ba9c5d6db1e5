"""Every command in a shell block of the documents runs: page by page, in a folder made for them.

So does the Python of the pages that need a panel or a server.

The tutorial and the guides are not here: test_start.py also compares what they print.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.forked import Forks
from tests.house.test_docs import DOCUMENTS, FENCE, ROOT, SHELL
from tests.house.test_start import PAGES, output_of
from tests.imports.test_evaluation_events import Receiver
from tests.shared.document_world import FILES_BY_PAGE, World, build_world, serving
from tests.shared.forked_shell import ForkedShell, Ran

# What is not run, by the beginning of its line, and why.
NOT_RUN = {
    "./dev": "test_dev.py tries the script",
    "claude mcp add": "a vendor's program",
    "createdb": "the test has a database of its own",
    "npx promptfoo": "it would install 1.4 GB",
    "peerage board models --reviews reviews.parquet --engine spark": "tests/engines run Spark",
    "peerage board models --reviews s3a://": "an address that does not exist",
    "peerage board reviewers --opinions opinions.parquet --engine spark": "tests/engines run Spark",
    "peerage serve": "a server does not end; one is started for the pages with curl",
    "pytest": "tests/doors/test_pytest_plugin.py runs the project of the page",
    "pip install": "it would change the environment of the tests",
}
# Ids of examples, and what the folder has in their place.
SEASONS = {"624c": 0, "91ab": 1, "721ff1d3": 2}
SESSIONS = {"3f2a": 0, "3f9a": 1, "77b0": 2, "8c1d": 3, "ID": 0}
# Lines that a terminal or an empty folder is needed for, as a script in this folder writes them.
WRITTEN_AS = {
    "peerage init": "peerage init --config found.toml",
    "peerage delete 3f9a": "peerage delete 3f9a --yes",
    "peerage delete --import 2": "peerage delete --import 2 --yes",
}
# Commands before a line, which the page describes in words.
BEFORE = {"peerage verify sonnet.json": "peerage move --to sqlite:///team.db"}
# Words of commands whose job is to say no (1) or that it is not known yet (3).
SAYS_NO = {"gate", "check", "audit", "decide", "binary"}
POSTGRES = re.compile(r"postgresql://USER:PASSWORD@HOST(:\d+)?/peerage")
SERVER, COLLECTOR = "http://127.0.0.1:8400", "http://127.0.0.1:4318"
# Nothing outside the folder is written, and an answer of a server that says no is a failure.
PRELUDE = 'PATH="{programs}:$PATH"; export HOME="$PWD"; curl() {{ command curl -fsS -m 300 "$@"; }}'


def blocks_of(path: Path) -> list[list[str]]:
    """The lines of each shell block of a document that are run."""
    blocks = []
    for language, block in FENCE.findall(path.read_text("utf-8")):
        if language in SHELL:
            joined = re.sub(r" *\\\n *", " ", block).splitlines()
            lines = [re.sub(r"\s+# .*", "", line.removeprefix("$ ")) for line in joined]
            blocks.append([line for line in lines if not line.startswith(tuple(NOT_RUN))])
    return [block for block in blocks if block]


BLOCKS = {path: blocks for path in DOCUMENTS if path not in PAGES and (blocks := blocks_of(path))}


def needs_of_page(path: Path) -> list[pytest.MarkDecorator]:
    text = str(BLOCKS[path])
    words = {"postgres": "postgresql://", "curl": "curl "}
    return [pytest.mark.needs(need) for need, word in words.items() if word in text]


def as_run(line: str, names: Mapping[str, str]) -> str:
    """A line with the ids and addresses of this run; those of an example stay whole words."""
    line = WRITTEN_AS.get(line, line)
    for shown, name in names.items():
        line = re.sub(rf"(?<![\w.-]){re.escape(shown)}(?![\w.])", name, line)
    before = [step for start, step in BEFORE.items() if line.startswith(start)]
    return "\n".join([*before, line])


def is_fine(ran: Ran) -> bool:
    allowed = {0} if SAYS_NO.isdisjoint(ran.words) else {0, 1, 3}
    return ran.code in allowed and "Traceback" not in ran.err


@pytest.fixture(scope="module")
def world(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PEERAGE_")}
    environ["XDG_CACHE_HOME"] = str(folder / "cache")
    return build_world(folder, lambda *words, cwd: forks.run(words, cwd=cwd, env=environ))


@pytest.fixture(scope="module")
def shell(forks: Forks) -> Iterator[ForkedShell]:
    made = ForkedShell(forks.run, lambda ran: 0 if is_fine(ran) else ran.code or 1)
    yield made
    made.close()


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    """A copy of the world, which a page may change."""
    return Path(shutil.copytree(world.folder, tmp_path / "world", symlinks=True))


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server") / "world"
    shutil.copytree(world.folder, folder, symlinks=True)
    with serving(folder) as address:
        yield address


@pytest.fixture
def collector() -> Iterator[str]:
    receiver = Receiver()
    yield receiver.url
    receiver.close()


@pytest.fixture
def names(world: World, path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """The ids and addresses of this run by those of the examples."""
    names = {shown: world.seasons[i] for shown, i in SEASONS.items()}
    names |= {shown: world.sessions[i] for shown, i in SESSIONS.items()}
    text = str(BLOCKS[path])
    if SERVER in text:
        names[SERVER] = request.getfixturevalue("server")
    if COLLECTOR in text:
        names[COLLECTOR] = request.getfixturevalue("collector")
    if POSTGRES.search(text):
        url = request.getfixturevalue("postgres_server").new_database()
        names |= {shown[0]: url for shown in POSTGRES.finditer(text)}
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=needs_of_page(path)) for path in BLOCKS],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_command_of_a_page_runs(
    path: Path, folder: Path, shell: ForkedShell, names: dict[str, str]
) -> None:
    shell.ran.clear()
    for name, data in FILES_BY_PAGE.get(str(path.relative_to(ROOT)), {}).items():
        (folder / name).write_bytes(data)
    for block in BLOCKS[path]:
        lines = [PRELUDE.format(programs=shell.programs), *(as_run(line, names) for line in block)]
        output_of("\n".join(lines), folder)
    assert not [ran for ran in shell.ran if not is_fine(ran)]


# The Python of these pages needs a panel, or a server and the package openai.
PYTHON = {
    "README.md": "import peerage",
    "docs/clients.md": "from openai import OpenAI\n\nclient",
    "docs/decision-models.md": "from openai import OpenAI\n\nclient",
}


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON)
def test_python_of_a_page_runs_with_a_panel(
    page: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    blocks = FENCE.findall((ROOT / page).read_text("utf-8"))
    (code,) = (text for name, text in blocks if name == "python" and text.startswith(PYTHON[page]))
    if SERVER in code:
        code = code.replace(SERVER, request.getfixturevalue("server"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_exception_is_in_some_document() -> None:
    """The tables of exceptions stay short: what a page no longer shows is struck out."""
    lines = [
        re.sub(r" *\\\n *", " ", block)
        for path in DOCUMENTS
        for language, block in FENCE.findall(path.read_text("utf-8"))
        if language in SHELL
    ]
    text = "\n" + re.sub(r"^\$ ", "", "\n".join(lines), flags=re.MULTILINE)
    for start in (*NOT_RUN, *WRITTEN_AS, *BEFORE):
        assert f"\n{start}" in text, start
    for shown in (*SEASONS, *SESSIONS):
        assert re.search(rf"\b{shown}\b", text), shown
