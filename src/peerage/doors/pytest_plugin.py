"""The pytest plug-in: the fixture `peerage`, its options, and the summary after a test run.

Nothing else of Peerage is imported until a test uses the fixture or an option asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from peerage.doors.pytest_checks import Checks, SuiteJudges

JUDGES: pytest.StashKey[SuiteJudges] = pytest.StashKey()
PROPERTY = "peerage"  # of a test's report: its checks, as JSON


@pytest.hookimpl
def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("peerage", "answers judged by a panel of models (fixture `peerage`)")
    group.addoption(
        "--peerage-base",
        metavar="FILE",
        type=Path,
        help="Compare the checks of this run with a baseline file; fail if they are worse.",
    )
    group.addoption(
        "--peerage-save-base",
        metavar="FILE",
        type=Path,
        help="Save the pass rates of this run as a baseline file.",
    )
    group.addoption(
        "--peerage-fresh",
        action="store_true",
        help="Judge every answer anew, and ignore stored verdicts.",
    )
    group.addoption(
        "--peerage-undecided",
        choices=("pass", "fail"),
        default="fail",
        help="Whether an undecided check or gate passes; default: fail.",
    )


@pytest.hookimpl
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "peerage_suite(file): run the test for each prompt of a file; it gets them as `case`.",
    )
    if not hasattr(config, "workerinput"):  # workers of pytest-xdist report to this process
        config.pluginmanager.register(CheckSummary(config), "peerage-summary")


@pytest.hookimpl
def pytest_unconfigure(config: pytest.Config) -> None:
    judges = config.stash.get(JUDGES, None)
    if judges is not None:
        judges.close()


@pytest.hookimpl
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("peerage_suite")
    if marker is None:
        return
    from peerage.doors.pytest_checks import read_suite

    cases = read_suite(metafunc.definition.path.parent, marker.args)
    metafunc.parametrize("case", cases, ids=[case.id for case in cases])


@pytest.fixture
def peerage(request: pytest.FixtureRequest) -> Checks:
    """Judge answers with the panel of peerage.toml: `peerage.check(question, answer)`."""
    from peerage.doors.pytest_checks import Checks, SuiteJudges

    stash = request.config.stash
    if JUDGES not in stash:
        stash[JUDGES] = SuiteJudges(request.config)
    return Checks(stash[JUDGES], request.node)


class CheckSummary:
    """The checks of a run, gathered from the reports of its tests, also from other processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._by_test: dict[str, list[str]] = {}
        self._lines: list[str] = []
        base = config.getoption("peerage_base")
        if base is not None and not base.is_file():
            raise pytest.UsageError(
                f"--peerage-base: there is no file {base}. To write it: --peerage-save-base {base}"
            )

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        texts = [str(value) for name, value in report.user_properties if name == PROPERTY]
        if texts:  # later reports of a test have the properties of earlier ones too
            self._by_test[report.nodeid] = texts

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        options = self._config.option
        wants_file = options.peerage_base is not None or options.peerage_save_base is not None
        if options.collectonly or not (self._by_test or wants_file):
            return
        from peerage.doors.pytest_checks import conclude_run

        self._lines, fails = conclude_run(self._by_test, options)
        if fails and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("peerage")
            for line in self._lines:
                terminalreporter.line(line)
