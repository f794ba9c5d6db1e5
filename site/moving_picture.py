"""Draw docs/session-live.svg: a session, a board and an audit on a terminal, as they happen.

`python site/moving_picture.py` runs the real program: a session of four seats that a server on
loopback answers for by a script, then the board and the audit of a simulated season. The frames
are what a terminal shows; only waiting is shortened.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.doors import scripted_panel  # noqa: E402 - found by the line above
from tests.doors.pseudo_terminal import watch  # noqa: E402
from tests.shared.mock_text import BLOCK  # noqa: E402

TARGET = ROOT / "docs" / "session-live.svg"
COLUMNS, LINES = 92, 24
QUESTION = "Why is the sky blue, and why are sunsets red?"
ANSWERS = {
    "heron": (
        "Air scatters short waves far more than long ones, by the fourth power of the wavelength. "
        "Blue therefore reaches us from the whole sky. At sunset the light crosses forty times as "
        "much air: the blue is gone, and red is left."
    ),
    "robin": (
        "Molecules of air scatter blue light more than red. In the evening the path through the "
        "air is longer, so that mostly red arrives."
    ),
    "wren": "The sky mirrors the sea. Sunsets are red because the sun is cooler in the evening.",
    "magpie": (
        "Blue light is scattered in all directions, a fact first explained by Lord Rayleigh. Dust "
        "and smoke make sunsets even redder."
    ),
}
PLACES = {  # each reviewer's order, the best first
    "heron": ("robin", "heron", "magpie", "wren"),
    "robin": ("heron", "robin", "magpie", "wren"),
    "wren": ("heron", "magpie", "wren", "robin"),
    "magpie": ("heron", "magpie", "robin", "wren"),
}
SECONDS = {"heron": 1.3, "robin": 0.8, "wren": 0.5, "magpie": 1.0}
VERDICT = (
    "Air scatters blue light much more than red, so blue comes from the whole sky. At sunset light "
    "crosses far more air, the blue is scattered away, and red is left. It is not a mirror of the "
    "sea: deserts have blue skies too."
)
SEASON = """
python3 - <<'END'
import json
with open("prompts.jsonl", "w") as file:
    for i in range(60):
        print(json.dumps({"id": f"q{i}", "query": f"Question {i}"}), file=file)
END
peerage run prompts.jsonl --quiet
"""
CHAR, LEADING, MARGIN = 8.43, 18, 16


class Panel(scripted_panel.Script):
    """The same server with this script; every reply takes its time."""

    def do_POST(self) -> None:  # noqa: N802 - the name that the server calls
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)
        model, prompt = request["model"], request["messages"][-1]["content"]
        stage = scripted_panel.stage_of(prompt)
        time.sleep(SECONDS[model])
        content = {"answer": ANSWERS[model], "conclude": VERDICT}.get(stage) or self.review(prompt)
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(content) // 4}
        if request.get("stream"):
            events = [
                {"choices": [{"index": 0, "delta": message}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
            ]
            lines = [*(f"data: {json.dumps(one)}\n\n" for one in events), "data: [DONE]\n\n"]
            self._send("".join(lines), "text/event-stream")
        else:
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send(json.dumps({"choices": [choice], "usage": usage}), "application/json")

    def review(self, prompt: str) -> str:
        """Return the ballot of the reviewer whose answers' order this is."""
        names = {text: name for name, text in ANSWERS.items()}
        authors = {names[text]: label for label, _, text in BLOCK.findall(prompt)}
        order = PLACES[self.path.split("/")[1]]
        marks = {authors[name]: 9 - 2 * place for place, name in enumerate(order)}
        evaluations = {
            label: dict.fromkeys(scripted_panel.DIMENSIONS, mark)
            | {"notes": "names the law and checks it" if mark == 9 else "leaves a part open"}
            for label, mark in marks.items()
        }
        (code,) = re.findall(r'"ballot": "(\w+)"', prompt)
        ranking = [authors[name] for name in order]
        return json.dumps({"ballot": code, "evaluations": evaluations, "ranking": ranking})


def panel_file(folder: Path, port: int) -> None:
    seats = [
        f'[[seat]]\nname = "{name}"\nmodel = "{name}"\n'
        f'base_url = "http://127.0.0.1:{port}/{name}/v1"\nprice_in = 0.5\nprice_out = 2.0\n'
        for name in ANSWERS
    ]
    text = f'[council]\nseed = 7\nverdict = "synthesis"\n{"".join(seats)}'
    (folder / "peerage.toml").write_text(text, encoding="utf-8")


def record() -> list[tuple[str, float]]:
    """Return the screens of the story, and for how many seconds each is shown."""
    frames: list[tuple[str, float]] = []
    bin_ = Path(sys.executable).parent
    environ = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"}

    def show(
        command: str, folder: Path, *, last_s: float, live: bool = False, below: str = ""
    ) -> str:
        frames.extend((below + typed, seconds) for typed, seconds in _typed(command))
        shell = ["sh", "-c", command]
        seen = watch(shell, folder, environ, columns=COLUMNS, lines=LINES - 2)
        begun = f"{below}$ {command}\n"
        if live:
            kept = dict.fromkeys(frame for frame in seen.frames if "waiting" in frame)
            steps = list(kept)[:: max(1, len(kept) // 16)]
            frames.extend((f"{begun}\n{frame}", 0.45) for frame in steps)
        text = "\n".join(f"{begun}\n{seen.text}".splitlines()[:LINES])
        frames.append((text, last_s))
        return text

    with tempfile.TemporaryDirectory() as scratch:
        folder, season = Path(scratch) / "one", Path(scratch) / "season"
        folder.mkdir()
        season.mkdir()
        scripted_panel.Script.ended.clear()
        server = scripted_panel.Server(("127.0.0.1", 0), Panel)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        panel_file(folder, server.server_port)
        show(f'peerage ask "{QUESTION}"', folder, last_s=7.0, live=True)
        server.shutdown()
        server.server_close()
        tutorial = (ROOT / "docs" / "start.md").read_text("utf-8")
        toml = re.search(r"<<'END'\n(.*?)^END", tutorial, re.DOTALL | re.MULTILINE)
        (season / "peerage.toml").write_text(toml[1] if toml else "", encoding="utf-8")
        watch(["sh", "-c", SEASON], season, environ)
        board = show("peerage board models", season, last_s=6.0)
        table, _, _ = board.partition("Columns left out")
        audit = "peerage audit | grep evidence | head -2 | cut -c 1-62"
        show(audit, season, last_s=7.0, below=f"{table.rstrip()}\n\n")
    return frames


def _typed(command: str) -> Iterator[tuple[str, float]]:
    for n in range(0, len(command) + 1, 6):
        yield f"$ {command[:n]}█", 0.08
    yield f"$ {command}█", 0.5


# -- the picture -------------------------------------------------------------------------------

STYLES = (  # of parts of a line
    (re.compile(r"^\$ .*"), "p"),
    (re.compile(r"✓ (?:reviewed|\d+ words)[^ ]*"), "g"),
    (re.compile(r"[·─]*─[·─]*●[·─]*|[·─]*●[·─]*─[·─]*"), "b"),
    (re.compile(r"^ *evidence"), "r"),
    (re.compile(r"^(?:Ranking|Answers|Models.*| *rank +model.*)$"), "h"),
    (re.compile(r"[╭╮╰╯│─]+"), "d"),
)


def svg_line(text: str) -> str:
    """Return one line of the screen with its colours."""
    parts, at = [], 0
    marks = sorted((m.start(), m.end(), name) for p, name in STYLES for m in p.finditer(text))
    for begin, end, name in marks:
        if begin < at:
            continue
        parts += [html.escape(text[at:begin]), f'<tspan class="{name}">']
        parts += [html.escape(text[begin:end]), "</tspan>"]
        at = end
    return "".join([*parts, html.escape(text[at:])])


def draw(frames: Sequence[tuple[str, float]]) -> str:
    """Return the frames as one picture; a line that recurs is drawn once and used again."""
    total = sum(seconds for _, seconds in frames)
    width, height = round(COLUMNS * CHAR + 2 * MARGIN), LINES * LEADING + 2 * MARGIN
    ids: dict[str, str] = {}
    groups, rules, at = [], [], 0.0
    for number, (text, seconds) in enumerate(frames):
        uses = []
        for row, line in enumerate(text.splitlines()[:LINES]):
            if line.strip():
                name = ids.setdefault(line, f"l{len(ids)}")
                uses.append(f'<use href="#{name}" y="{MARGIN + (row + 1) * LEADING - 4}"/>')
        groups.append(f'<g class="f" style="animation-name:f{number}">{"".join(uses)}</g>')
        begin, end = 100 * at / total, 100 * (at + seconds) / total
        hidden = "" if number == 0 else "0%{visibility:hidden}"
        last = "" if number == len(frames) - 1 else f"{end:.3f}%{{visibility:hidden}}"
        rules.append(f"@keyframes f{number}{{{hidden}{begin:.3f}%{{visibility:visible}}{last}}}")
        at += seconds
    lines = [
        f'<text id="{name}" x="{MARGIN}" xml:space="preserve" textLength='
        f'"{len(line) * CHAR:.1f}" lengthAdjust="spacingAndGlyphs">{svg_line(line)}</text>'
        for line, name in ids.items()
    ]
    style = (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "fill:#d7dde5;white-space:pre}.p,.h{font-weight:bold;fill:#fff}.g{fill:#7fd48a}"
        ".b{fill:#6cb6ff}.r{fill:#ff9a8b;font-weight:bold}.d{fill:#7b8794}"
        f".f{{visibility:hidden;animation:{total:.2f}s step-end infinite}}"
        "@media (prefers-reduced-motion:reduce){.f{animation:none!important}"
        f".f:nth-of-type({_still(frames)}){{visibility:visible}}}}" + "".join(rules)
    )
    label = "A session as it runs, the board of models with intervals, and the audit"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{label}">',
            f"<title>{label}</title><style>{style}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1b222b"/>',
            f"<defs>{''.join(lines)}</defs>",
            *groups,
            "</svg>",
            "",
        ]
    )


def _still(frames: Sequence[tuple[str, float]]) -> int:
    """Return the number of the frame that is shown where nothing may move: the first result."""
    return 1 + max(range(len(frames)), key=lambda i: frames[i][1])


if __name__ == "__main__":
    TARGET.write_text(draw(record()), encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes")
