"""Runs command lines quickly: one Python that has loaded the CLI, one fork for each of them.

Each is a process of its own, with its own streams, folder, environment and exit code; only the
loading is shared. What is about the loading itself starts a Python of its own.
"""

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Forks:
    """The Python that forks, as seen by tests; it starts with the first command."""

    def __init__(self, *flags):
        self._flags = flags
        self._process = None
        self._one_at_a_time = threading.Lock()

    def run(self, argv, *, cwd, env, **streams):
        """(exit code, stdout, stderr) of a command line.

        `stdin` is a file or "closed", or `text` what is read from it; `stdout` is a file. With
        `program="pytest"` it is a command line of pytest.
        """
        case = {"argv": [*map(str, argv)], "cwd": str(cwd), "env": dict(env), **streams}
        with self._one_at_a_time:
            process = self._started()
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            said = process.stdout.readline()
        assert said, "the Python that forks is gone; what it said is on stderr"
        code, out, err = json.loads(said)
        return subprocess.CompletedProcess(["peerage", *case["argv"]], code, out, err)

    def _started(self):
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, *self._flags, "-m", "tests.forked"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # who forks has one thread
            )
        return self._process

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(60)
            self._process.stdout.close()
            self._process = None


LOADED = (
    *("aiohttp", "docstring_parser", "duckdb", "jinja2", "markdown_it", "narwhals", "numpy"),
    *("numpy.random", "pydantic", "rich.console", "rich.markdown"),
    *("peerage.doors.cli.board_commands", "peerage.doors.cli.session_commands"),
    *("peerage.doors.cli.run", "peerage.doors.cli.data_commands", "peerage.doors.render"),
    *("peerage.imports", "peerage.panel", "peerage.providers.calling", "peerage.reports.audits"),
    *("peerage.reports.community_boards", "peerage.reports.model_boards"),
    *("peerage.stores.sqlite", "peerage.providers.simulated", "peerage.doors.pytest_checks"),
)


def load():
    """What commands load, once for every fork."""
    for name in LOADED:
        importlib.import_module(name)
    for room in ("peerage.rules", "peerage.biases"):
        paths = importlib.import_module(room).__path__
        for module in pkgutil.iter_modules(paths, f"{room}."):
            importlib.import_module(module.name)


def answer(case):
    folder = tempfile.mkdtemp()  # and not one that a child would clear away when it ends
    out, err = case.get("stdout") or f"{folder}/out", f"{folder}/err"
    if case.get("text") is not None:
        case["stdin"] = f"{folder}/in"
        Path(case["stdin"]).write_text(case["text"], encoding="utf-8")
    child = os.fork()
    if child == 0:
        _child(case, out, err)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = [Path(file).read_bytes() if file.startswith(folder) else b"" for file in (out, err)]
    shutil.rmtree(folder)
    return [code, *(text.decode("utf-8", "backslashreplace") for text in said)]


def _child(case, out, err):
    code = 70
    try:
        os.chdir(case["cwd"])
        os.environ.clear()
        os.environ.update(case["env"])
        time.tzset()
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [path for path in paths if path and path not in sys.path]
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
        sys.argv = [case.get("program", "peerage"), *case["argv"]]
        code = _ended()
        threading._shutdown()
        atexit._run_exitfuncs()
        gc.collect()  # what is left open says so now
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - a child never comes back
        traceback.print_exc()
    finally:
        os._exit(code)


def _ended():
    """The exit code of the command line, as the interpreter would give it."""
    import pytest

    from peerage.doors.cli import main

    try:
        if sys.argv[0] == "pytest":
            return int(pytest.main(sys.argv[1:]))
        main()
    except SystemExit as left:
        return left.code or 0
    except BaseException:  # noqa: BLE001 - what the interpreter would do
        traceback.print_exc()
        return 1
    return 0


def serve():
    """Answer each line of stdin, until it ends or the tests are stopped with Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        load()
        gc.collect()
        gc.freeze()
        for line in sys.stdin:
            sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve()
    os._exit(0)  # what is frozen is not taken down
