"""Whether each extra of the package works: installed into an empty environment, used, removed.

The extras are tried one at a time, each alone on top of the bare package, so that none lives on
what another has brought. Before an extra is installed, what it is for must be refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from prove import Line

UV = shutil.which("uv")
SERVICE = (
    "from peerage import Council; from peerage.service import Service; "
    "service = Service(Council(needs_seats=False, store='sqlite:///:memory:')); "
)
ROWS = (
    "import peerage; board = peerage.board_models([dict(session_id=f's{i}', reviewer=r, "
    "candidate=c, score=i % 3 + k) for i in range(6) for r in 'xyz' for k, c in enumerate('ab')])"
)
# By extra, code that uses it through the package.
USES: Mapping[str, str] = {
    "local": "from peerage.providers.local import runtime; runtime()",
    "server": SERVICE + "from peerage.doors.http import create_app; create_app(service).openapi()",
    "mcp": SERVICE + "from peerage.doors.mcp import create_server; create_server(service)",
    "postgres": (
        "from peerage.errors import MissingExtraError, PeerageError\n"
        "from peerage.stores import open_store\n"
        "try:\n    open_store('postgresql://none@127.0.0.1:1/none?connect_timeout=1')\n"
        "except MissingExtraError:\n    raise\n"
        "except PeerageError:\n    pass  # there is no server\n"
    ),
    "frames": ROWS + "; assert len(board.to_pandas()) == len(board.to_polars()) == 2",
    "plots": ROWS + "; board.plot()",
    "telemetry": "from peerage.doors.http.telemetry import Telemetry; Telemetry([])",
    "signing": (
        "from pathlib import Path; from peerage.reports.passports import load_key; "
        "load_key(Path('key.pem'))"
    ),
    "spark": (
        "from peerage.engines.spark import Spark; " + ROWS.replace("board =", "rows =", 1)
        .replace("peerage.board_models(", "(", 1)
        + "; assert len(peerage.board_models(rows, engine=Spark('local[1]')).rows) == 2"
    ),
}  # fmt: skip
WITH = {"telemetry": ("server",)}  # it is a part of the server


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment apart from this one, to install into and to run code in."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def make(self) -> None:
        words = [UV, "venv", "--quiet"] if UV else [sys.executable, "-m", "venv"]
        subprocess.run([*words, str(self.folder)], check=True, capture_output=True)  # noqa: S603

    def pip(self, *words: str) -> subprocess.CompletedProcess[str]:
        if UV:
            where = ["--python", str(self.python)]
            return _run([UV, "pip", words[0], "--quiet", *where, *words[1:]], self.folder)
        quick = ["--no-compile"] if words[0] == "install" else []
        command = [str(self.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        return _run([*command, words[0], *quick, *words[1:]], self.folder)

    def run(self, code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
        """Run code in the environment; other folders may lend packages to it."""
        lent = {"PYTHONPATH": ":".join(map(str, paths))} if paths else {}
        return _run([str(self.python), "-c", code], self.folder, lent)

    def packages(self) -> set[str]:
        listed = self.pip_freeze().splitlines()
        return {line.partition("==")[0] for line in listed if "==" in line}

    def pip_freeze(self) -> str:
        words = [UV, "pip", "freeze", "--python", str(self.python)] if UV else []
        return _run(words or [str(self.python), "-m", "pip", "freeze"], self.folder).stdout

    def remove(self, names: Sequence[str]) -> None:
        if names:
            self.pip("uninstall", *([] if UV else ["--yes"]), *names)


def _run(
    words: Sequence[str | None], folder: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(  # noqa: S603 - our own words
        [str(word) for word in words],
        cwd=folder,
        env={**environ, **(more or {}), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )


def try_extras(wheel: Path, folder: Path, extras: Mapping[str, Sequence[str]]) -> Iterator[Line]:
    """Install a wheel alone and then with each extra, and use what the extra is for."""
    environment = Environment(folder)
    environment.make()
    done = environment.pip("install", str(wheel))
    yield Line("installed alone", 1, _said(done) or "well", done.returncode == 0)
    done = environment.run("import peerage; print(peerage.score([['a', 'b'], ['a', 'b']]))")
    yield Line("… scores ballots", 2, _said(done) or "well", "'a' first" in done.stdout)
    bare = environment.packages()
    for extra in extras:
        if extra == "all":
            yield _line_of_all(extras)
        elif extra == "spark":
            yield _line_of_spark(environment, extras[extra])
        else:
            yield _line_of(environment, wheel, extra, bare)


def _line_of(environment: Environment, wheel: Path, extra: str, bare: set[str]) -> Line:
    """Try one extra, and remove what it brought."""
    name, code = f"extra {extra}", USES[extra]
    is_refused = environment.run(code).returncode != 0
    wanted = ",".join((*WITH.get(extra, ()), extra))
    done = environment.pip("install", f"{wheel}[{wanted}]")
    if done.returncode:
        return Line(name, 1, f"not installed: {_said(done)}", ok=False)
    more = sorted(environment.packages() - bare)
    used = environment.run(code)
    environment.remove(more)
    measured = (
        f"{len(more)} packages; refused without, {'works' if not used.returncode else 'fails'} with"
    )
    if not is_refused:
        measured = "works without the extra"
    problem = f": {_said(used)}" if used.returncode else ""
    return Line(name, 1, measured + problem, is_refused and used.returncode == 0)


def _line_of_spark(environment: Environment, requirements: Sequence[str]) -> Line:
    """Try PySpark as it is installed here: its archive alone has 400 MB.

    Without it only the declaration is read.
    """
    name = "extra spark"
    is_refused = environment.run(USES["spark"]).returncode != 0
    pyspark = find_spec("pyspark")
    needed = [Requirement(text) for text in requirements]
    if pyspark is None or pyspark.origin is None:
        return Line(name, 1, "declared; not tried, as PySpark is not installed here", is_refused)
    wrong = [one for one in needed if metadata.version(one.name) not in one.specifier]
    home = Path(pyspark.origin).parents[1]
    used = environment.run(USES["spark"], home)
    measured = f"with the PySpark {metadata.version('pyspark')} that is installed here: "
    measured += _said(used) or "a board"
    return Line(name, 1, measured, is_refused and not wrong and used.returncode == 0)


def _line_of_all(extras: Mapping[str, Sequence[str]]) -> Line:
    named = {extra for text in extras["all"] for extra in Requirement(text).extras}
    missing = set(extras) - named - {"all"}
    said = f"names {len(named)} extras, {len(missing)} missing; not installed as a whole"
    return Line("extra all", len(named), said, not missing)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last words of a command that failed."""
    return " ".join(done.stderr.split())[-160:] if done.returncode else ""
