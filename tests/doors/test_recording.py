"""The recording in the documents is what `peerage ask` shows, times and ids aside.

`PEERAGE_RECORD=1` in the environment of this test writes the document anew.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.doors.pseudo_terminal import watch
from tests.doors.scripted_panel import QUESTION, scripted_server

DOCUMENT = Path(__file__).parents[2] / "docs" / "recording.md"
PANEL = """\
[council]
quorum = 2
chair = "wren"
[[seat]]
name = "heron"
model = "heron"
base_url = "{url}"
price_in = 3.0
price_out = 15.0
[[seat]]
name = "wren"
model = "wren"
base_url = "{url}"
price_in = 0.5
price_out = 2.0
[[seat]]
name = "sloth"
model = "sloth"
base_url = "{url}"
timeout_s = 2
[[seat]]
name = "mule"
model = "mule"
base_url = "{url}"
price_in = 1.0
price_out = 5.0
"""
PAGE = """\
# `peerage ask`, recorded

This page shows one session in the terminal. Of a panel of four, *heron* and *wren* answer, *sloth*
never replies, and *mule* refuses to answer but reviews. The terminal has 80 columns and 24 lines;
you see it first while the panel waits for *sloth*, then at the end. [A
test](../tests/doors/test_recording.py) runs this session again and compares the output; times and
the session's id are replaced by 0.

```toml
{panel}```

While it runs:

```text
$ peerage ask "{question}"
{frame}
```

At the end, scrolled back:

```text
{end}
```

The two seats that failed to answer are not ranked; each is listed with the reason. With only two
answers, the authors cannot vote, because each could rank only the other's answer, so they are not
asked to review. A single ballot decides, and the result says so.
"""


def waits_for_sloth_alone(screen: str) -> bool:
    states = dict(re.findall(r"^(heron|wren|sloth|mule) +(\S+)", screen, re.MULTILINE))
    done = {"heron": "✓", "wren": "✓", "mule": "✗"}
    return {**states, "sloth": ""} == {**done, "sloth": ""} and "sloth  answering" in screen


def timeless(text: str) -> str:
    text = re.sub(r"(\b\d+(\.\d+)?|< 1) m?s\b", "0 s", text)
    return re.sub(r"\b[0-9a-f]{16}\b", "0" * 16, text)


@pytest.mark.slow
def test_the_recording_in_the_documents_is_true(tmp_path, peerage):
    with scripted_server() as url:
        (tmp_path / "peerage.toml").write_text(PANEL.format(url=url), encoding="utf-8")
        command = [sys.executable, "-m", "peerage", "ask", QUESTION]
        seen = watch(command, tmp_path, peerage.environ)
    assert seen.code == 0, seen.text
    frame = next(screen for screen in seen.frames if waits_for_sloth_alone(screen))
    panel = PANEL.format(url="http://127.0.0.1:8000/v1")
    parts = {"question": QUESTION, "frame": timeless(frame), "end": timeless(seen.text)}
    page = PAGE.format(panel=panel, **parts)
    if os.environ.get("PEERAGE_RECORD"):
        DOCUMENT.write_text(page, encoding="utf-8")
    assert page == DOCUMENT.read_text(encoding="utf-8")
