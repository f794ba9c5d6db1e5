"""The site builds from a clone without a warning, and has a page for what the code offers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import peerage
from peerage.biases import metrics
from peerage.biases.decision_votes import METRICS
from peerage.doors.cli import app
from peerage.findings import AuditLimits
from peerage.rules import rules
from tests.conftest import SITE

ROOT = Path(__file__).parents[2]
SOURCE = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?([^\"\s>]+)")
FINDING = re.compile(r"\w+, [\w>]+: -?[\d.]+ \[-?[\d.]+, -?[\d.]+\], n \d+")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The module that makes the pages of the Reference."""
    spec = spec_from_file_location("reference", ROOT / "site" / "reference.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": str(SITE), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.needs("site")
def test_the_site_has_every_page_and_lists_commands_routes_and_names(site: Path) -> None:
    def text(name: str) -> str:
        return (site / "reference" / f"{name}.html").read_text(encoding="utf-8")

    assert all(f"peerage {name}" in text("commands") for name in app if not name.startswith("-"))
    assert "/api/sessions" in text("http")
    assert "SessionDocument" in text("json")
    assert all(name in text("python") for name in peerage.__all__ if name != "__version__")
    assert "peerage.moderators" in text("plugins")
    assert 'href="reference/metrics/position.html"' in (site / "audit.html").read_text("utf-8")
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    assert {path for path in pages - built if path.name != "README.md"} == set()


@pytest.mark.slow
@pytest.mark.needs("site")
def test_no_page_of_the_site_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        sources = SOURCE.findall(page.read_text(encoding="utf-8"))
        assert not [one for one in sources if one.startswith(("http:", "https:", "//"))], page


@pytest.mark.slow
@pytest.mark.needs("site", "chromium")
def test_a_page_that_is_opened_from_the_folder_can_be_searched(site: Path) -> None:
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        box = page.locator("form[name=search] input")
        found = page.locator(".md-search-result a[href*='metrics/self_preference.html']")
        for _ in range(12):  # what is typed before the scripts have started is not searched for
            page.goto((site / "index.html").as_uri())
            page.wait_for_load_state("networkidle")
            box.fill("self")
            page.wait_for_timeout(1_000)
            box.fill("self preference")
            with contextlib.suppress(Error):
                found.first.wait_for(state="attached", timeout=10_000)
                break
        assert found.count()
        browser.close()


# -- one page for each rule and metric ---------------------------------------------------------


@pytest.mark.parametrize(
    "name", [*(name for name in metrics.names() if name in AuditLimits().n_min), *METRICS]
)
def test_every_metric_has_a_page_with_each_part(reference: ModuleType, name: str) -> None:
    parts = reference.about_metric(name)
    assert set(parts) == {"", *reference.METRIC_PARTS}
    assert all(parts.values())
    assert "{edge}" in parts["Healthy"]
    assert FINDING.match(parts["Example"].strip("`"))
    page = reference.metric_page(name)
    assert f"{name} = {AuditLimits().n_min[name]}\n" in page
    assert f"{name} = {AuditLimits().healthy[name]:g}\n" in page
    assert f"\n{name}, " in page


@pytest.mark.parametrize("name", rules.names())
def test_every_rule_has_a_page_with_each_part(reference: ModuleType, name: str) -> None:
    parts = reference.parts_of(rules.get(name).values.__doc__)
    assert set(parts) == {"", *reference.RULE_PARTS}
    assert all(parts.values())
    assert f"--rule {name}" in reference.rule_page(name)


def test_every_name_for_programs_and_extensions_is_in_the_reference(reference: ModuleType) -> None:
    import peerage.plugins

    page = reference.python_page()
    assert all(f"## peerage.{name}\n" in page for name in peerage.__all__ if name[0] != "_")
    page = reference.plugins_page()
    assert all(f"## peerage.plugins.{name}\n" in page for name in peerage.plugins.__all__)
