"""Runs many command lines quickly: one Python that has loaded the CLI, one fork for each.

Reads a JSON list of cases on stdin, each with `argv` and perhaps `stdin` (a file, or "closed")
and `stdout` (a file); writes a line for each, a JSON list of exit code, stdout and stderr.
"""

import gc
import io
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

import aiohttp  # noqa: F401
import duckdb  # noqa: F401 - loaded once, for every fork
import numpy as np  # noqa: F401
import pydantic  # noqa: F401
import rich.console  # noqa: F401

import peerage.doors.cli.board_commands
import peerage.doors.cli.demo
import peerage.imports
import peerage.panel
import peerage.providers.calling
import peerage.reports
import peerage.reports.community_boards
import peerage.reports.model_boards
import peerage.stores.sqlite  # noqa: F401
from peerage.doors.cli import main


def run(case):
    with tempfile.TemporaryDirectory() as folder:
        out = case.get("stdout") or f"{folder}/out"
        child = os.fork()
        if child == 0:
            _child(case, out, f"{folder}/err")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = Path(out).read_bytes() if out == f"{folder}/out" else b""
        err = Path(folder, "err").read_bytes()
    return [code, said.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace")]


def _child(case, out, err):
    code = 70
    try:
        stdin = case.get("stdin", os.devnull)
        for fd, path, flags in (
            (0, os.devnull if stdin == "closed" else stdin, os.O_RDONLY),
            (1, out, os.O_WRONLY | os.O_CREAT),
            (2, err, os.O_WRONLY | os.O_CREAT),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, fd)
            os.close(opened)
        if stdin == "closed":
            os.close(0)
        sys.stdin = None if stdin == "closed" else io.TextIOWrapper(io.FileIO(0))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w")), "utf-8", "backslashreplace", write_through=True
        )
        sys.argv = ["peerage", *case["argv"]]
        try:
            main()
        except SystemExit as left:
            code = left.code
        except BaseException:  # noqa: BLE001 - what the interpreter would do
            traceback.print_exc()
        gc.collect()  # what is left open says so now
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    for case in json.load(sys.stdin):
        sys.stdout.write(json.dumps(run(case)) + "\n")
        sys.stdout.flush()
