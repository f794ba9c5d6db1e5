"""A Chromium for the tests of the pages, and servers with simulated seats."""

import shutil

import pytest

from tests.doors.http.conftest import running, simulated

TIMEOUT_MS = 30_000  # a loaded machine is slow, not wrong
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


@pytest.fixture(scope="module")
def chromium():
    """A browser that is started once a module; every test opens a context of its own.

    While it runs this thread has a running event loop, over which other tests would trip.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)))
    playwright.expect.set_options(timeout=TIMEOUT_MS)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def browse(chromium):
    """Opens a tab; what scripts complain of, and what is asked of other hosts, fails the test."""
    contexts, faults = [], []

    def look(**options):
        context = chromium.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(TIMEOUT_MS)
        tab.on("pageerror", lambda error: faults.append(f"error: {error}"))
        tab.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        tab.on(
            "request",
            lambda sent: (
                None
                if sent.url.startswith(("http://127.0.0.1:", "data:", "blob:"))
                else faults.append(f"asked for {sent.url}")
            ),
        )
        tab.faults = faults
        return tab

    yield look
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="module")
def council(tmp_path_factory):
    """A server whose four seats take a moment for everything."""
    store = f"sqlite:///{tmp_path_factory.mktemp('pages')}/s.db"
    with running(store, simulated("ann", "bob", "cyd", "dan", latency_ms=60)) as started:
        yield started
