"""How many functions of ours one command calls: what a reader has to follow.

Counted are distinct functions and methods that are defined by `def` or `async def` in
`src/peerage`, called in any thread from the start of `main` to its end. Not counted: what runs
while a module of ours is imported, bodies of classes, lambdas, comprehensions and generator
expressions, and methods that dataclasses and pydantic generate.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import peerage
from bench import Row

ROOT = str(Path(peerage.__file__).parent)
SEATS = "".join(
    f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n' for name in ("able", "baker", "charlie")
)
COMMANDS = {  # the most that are wished; the second board has no new session to read
    "ask": (["ask", "Why is the sky blue?"], 350),
    "board models": (["board", "models"], 220),
    "board models, again": (["board", "models"], 220),
}


def run() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        config = f'store = "sqlite:///{folder}/peerage.db"\n{SEATS}'
        (Path(folder) / "peerage.toml").write_text(config, encoding="utf-8")
        for name, (command, most) in COMMANDS.items():
            done = subprocess.run(  # noqa: S603 — our own code with our own words
                [sys.executable, __file__, *command],
                capture_output=True,
                text=True,
                check=True,
                cwd=folder,
                env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""},
            )
            by_file = json.loads(done.stdout)
            rows.append(Row(name, 1, sum(by_file.values()), most, peer="wished", unit="defs"))
    return rows


def count_called(arguments: list[str]) -> Counter[str]:
    """The number of functions that a command calls, by file, the largest first."""
    from peerage.doors.cli import main

    called: set[CodeType] = set()

    def see(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in called and is_ours(code) and not is_import(frame):
            called.add(code)

    sys.argv = ["peerage", *arguments]
    threading.setprofile(see)
    sys.setprofile(see)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    sys.setprofile(None)
    return Counter(str(Path(code.co_filename).relative_to(ROOT)) for code in called)


def is_ours(code: CodeType) -> bool:
    """Whether a code object is a function of ours with a name; bodies of classes are none."""
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    return is_function and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<")


def is_import(frame: FrameType | None) -> bool:
    """Whether a frame belongs to the import of a module of ours."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(ROOT):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    print(json.dumps(dict(count_called(sys.argv[1:]).most_common())))
