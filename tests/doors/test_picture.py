"""The pictures of terminals are what the commands really show.

The one of the README moves; `python site/moving_picture.py` draws it anew. The other one is the
beginning of `peerage show` on the example that ships with the package. After a change of that view,
PEERAGE_WRITE_PICTURE=1 pytest tests/doors/test_picture.py draws it anew.
"""

import fcntl
import html
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "session.svg"
WIDTH, HEIGHT = 100, 200
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
END = "Review by"  # each review in full follows, which would be too much


def on_a_terminal(argv, **where):
    """What a command writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, **where)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


def drawn(shown, command):
    """The picture of a terminal with some output on it; no font is fetched from anywhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}\n", style="bold"))
    console.print(Text.from_ansi(shown))
    return FONT.sub("", console.export_svg(title="peerage", unique_id="peerage"))


def words_in(picture):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    return TIME.sub("", html.unescape(" ".join(texts)).replace("\xa0", " ")).split()


def test_the_picture_shows_what_the_command_shows(peerage, tmp_path):
    example = ROOT / "src" / "peerage" / "examples" / "ballots.json"
    assert peerage("import", example, "--as", "sessions").returncode == 0
    (session,) = json.loads(peerage("sessions", "--json").stdout)["sessions"]
    command = f"peerage show {session['id'][:4]}"
    env = {**peerage.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    argv = [sys.executable, "-m", *command.split()]
    shown = on_a_terminal(argv, cwd=tmp_path, env=env)
    lines = shown.splitlines()
    end = next(i for i, line in enumerate(lines) if END in line)
    picture = drawn("\n".join(lines[:end]), command)
    if os.environ.get("PEERAGE_WRITE_PICTURE"):
        PICTURE.write_text(picture, encoding="utf-8")
    assert words_in(PICTURE.read_text(encoding="utf-8")) == words_in(picture)


@pytest.mark.slow
def test_the_moving_picture_shows_what_the_commands_show():
    """Of the three results: times, marks and costs aside."""
    spec = spec_from_file_location("moving_picture", ROOT / "site" / "moving_picture.py")
    maker = module_from_spec(spec)
    spec.loader.exec_module(maker)
    results = [text for text, seconds in maker.record() if seconds >= 6.0]
    assert len(results) == 3
    drawn_words = {*re.findall(r"[^\W\d_]+", html.unescape(maker.TARGET.read_text("utf-8")))}
    for text in results:
        assert {*re.findall(r"[^\W\d_]+", text)} <= drawn_words
