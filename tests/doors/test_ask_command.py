"""`ask` and `show` as a person or a script meets them: in a pipe, in quiet, on Ctrl-C."""

from __future__ import annotations

import re
import sys

import pytest

from tests.doors.pseudo_terminal import watch
from tests.doors.scripted_panel import ANSWERS, QUESTION, VERDICT, scripted_server

SEATS = """\
[[seat]]
name = "heron"
model = "heron"
base_url = "{url}"
[[seat]]
name = "wren"
model = "wren"
base_url = "{url}"
[[seat]]
name = "mule"
model = "mule"
base_url = "{url}"
"""
SLOTH = """\
[[seat]]
name = "sloth"
model = "sloth"
base_url = "{url}"
timeout_s = 30
"""


@pytest.fixture
def scripted(tmp_path):
    """A panel of two that answer and one that refuses; an address for more seats."""
    with scripted_server() as url:
        (tmp_path / "peerage.toml").write_text(SEATS.format(url=url), encoding="utf-8")
        yield url


def test_a_pipe_gets_plain_markdown_that_is_never_wrapped_and_failures_go_to_stderr(
    peerage, scripted
):
    done = peerage("ask", QUESTION)
    assert done.returncode == 0
    assert done.stdout.startswith("# synthesis by ")
    assert VERDICT in done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert not re.search("[\u2500-\u259f]", done.stdout)
    assert "mule failed to answer" in done.stderr
    assert "declined" not in done.stdout


def test_quiet_is_the_bare_verdict_as_it_was_written(peerage, scripted):
    done = peerage("ask", QUESTION, "--verdict", "none", "--quiet")
    assert done.stdout == ANSWERS["heron"] + "\n"
    assert "mule failed to answer" in done.stderr
    (listed,) = re.findall(r"^\| ([0-9a-f]{16}) ", peerage("sessions").stdout, re.MULTILINE)
    assert peerage("show", listed, "--quiet").stdout == done.stdout


def test_a_session_is_shown_as_markdown_and_as_a_page(peerage, scripted, tmp_path):
    peerage("ask", QUESTION, "--quiet")
    (listed,) = re.findall(r"^\| ([0-9a-f]{16}) ", peerage("sessions").stdout, re.MULTILINE)
    shown = peerage("show", listed)
    assert peerage("show", listed, "--markdown").stdout == shown.stdout
    done = peerage("show", listed, "--markdown", "s.md", "--html", "s.html", "--raw")
    assert (done.returncode, done.stdout) == (0, "")
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert "fourth power" in page
    assert '"evaluations"' in text
    assert '"evaluations"' not in shown.stdout


@pytest.mark.slow
def test_ctrl_c_leaves_the_command_that_goes_on_and_nothing_else(peerage, scripted, tmp_path):
    with (tmp_path / "peerage.toml").open("a", encoding="utf-8") as panel:
        panel.write(SLOTH.format(url=scripted))
    seen = watch(
        [sys.executable, "-m", "peerage", "ask", QUESTION],
        tmp_path,
        peerage.environ,
        interrupt_when=lambda screen: "sloth  answering" in screen and "✓" in screen,
    )
    assert seen.code == 130
    words = " ".join(seen.text.split())
    said = re.fullmatch(
        r"peerage: session ([0-9a-f]{16}) is not finished\. "
        r"To continue: peerage ask --resume ([0-9a-f]{16})",
        words,
    )
    assert said, seen.text
    assert said[1] == said[2]
    shown = peerage("show", said[1]).stdout
    assert "missing: the answer of sloth;" in shown
