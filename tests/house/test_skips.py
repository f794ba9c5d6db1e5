"""The promise of `--all`, tried on small suites that run under this suite's own conftest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"

# A need that no machine meets, added to the table as a reader of the table would.
LACKING = """
NEEDS["unicorn"] = Need("a unicorn", lambda: False, "./catch unicorn")
"""

SUITE = """
import pytest

def test_plain():
    pass

@pytest.mark.needs("unicorn")
def test_that_rides():
    pass

@pytest.mark.slow
def test_that_takes_its_time():
    pass
"""


@pytest.fixture
def suite(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[pytest.Pytester]:
    """A small suite under our conftest, without the plug-ins that it does not use."""
    monkeypatch.delenv("PEERAGE_TEST_ALL", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8") + LACKING)
    pytester.makeini("[pytest]\nmarkers =\n    slow: x\n    needs(what): x\n")
    yield pytester
    settings.load_profile("house" if request.config.getoption("--all") else "quick")


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    """In this process where it can be, which is fast; workers need a process of their own."""
    start = suite.runpytest_subprocess if "-n" in options else suite.runpytest_inprocess
    workers = ("-p", "xdist") if "-n" in options else ()
    return start("-p", "no:cacheprovider", *workers, *options)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_missing_need_is_skipped_and_the_end_says_what_and_how(
    suite: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    suite.makepyfile(SUITE)
    result = run(suite, *workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*= NOT RUN =*",
            "1 test for want of a unicorn; to enable: ./catch unicorn",
            "1 test marked slow; to run them: ./dev test --all",
            "*1 passed, 1 skipped*",
        ]
    )


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_all_fails_where_a_need_is_missing_and_runs_the_slow(
    suite: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    suite.makepyfile(SUITE)
    result = run(suite, *workers, "--all")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*--all refuses to skip: needs a unicorn*./catch unicorn*"])
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.no_fnmatch_line("*NOT RUN*")


def test_the_environment_can_ask_for_all(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEERAGE_TEST_ALL", "1")
    suite.makepyfile(SUITE)
    run(suite).assert_outcomes(passed=2, errors=1)


SHIRKERS = {
    "skip": "def test_it():\n    pytest.skip('not today')",
    "mark": "@pytest.mark.skip(reason='not today')\ndef test_it(): pass",
    "skipif": "@pytest.mark.skipif(True, reason='not today')\ndef test_it(): pass",
    "importorskip": "def test_it():\n    pytest.importorskip('no_such', reason='not today')",
    "teardown": "@pytest.fixture\ndef late():\n    yield\n    pytest.skip('not today')\n"
    "def test_it(late): pass",
    "xfail": "@pytest.mark.xfail(reason='not today')\ndef test_it(): assert False",
    "xpass": "@pytest.mark.xfail(reason='not today')\ndef test_it(): pass",
    "imperative xfail": "def test_it():\n    pytest.xfail('not today')",
    "module": "pytest.skip('not today', allow_module_level=True)",
}


@pytest.mark.parametrize("how", SHIRKERS)
def test_no_way_of_skipping_gets_past_all(suite: pytest.Pytester, how: str) -> None:
    suite.makepyfile(f"import pytest\n\n{SHIRKERS[how]}\n")
    assert run(suite).ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    strict = run(suite, "--all")
    assert strict.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    strict.stdout.fnmatch_lines(["*--all refuses to skip: *not today*"])


def test_a_plain_skip_is_listed_with_its_reason(suite: pytest.Pytester) -> None:
    suite.makepyfile(f"import pytest\n\n{SHIRKERS['skip']}\n")
    run(suite).stdout.fnmatch_lines(["*= NOT RUN =*", "1 test skipped: not today"])


def test_a_need_outside_the_table_is_refused(suite: pytest.Pytester) -> None:
    suite.makepyfile(SUITE.replace("unicorn", "dragon"))
    result = run(suite)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no need 'dragon'; known: java,*"])


@pytest.mark.parametrize("asked", [["-m", "slow"], ["test_it.py::test_that_takes_its_time"]])
def test_a_slow_test_asked_for_is_run(suite: pytest.Pytester, asked: list[str]) -> None:
    suite.makepyfile(test_it=SUITE)
    result = run(suite, *asked)
    assert result.parseoutcomes()["passed"] == 1
