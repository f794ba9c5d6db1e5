"""Starting is light: what an import and a call for help may load, by name and not by the clock."""

from __future__ import annotations

import json
import subprocess
import sys

# Beyond the standard library, `import peerage` loads nothing but itself.
MAY_LOAD_ON_IMPORT = {"peerage"}

# Packages that cost tens of milliseconds or more; help needs none of them.
HEAVY = {
    "aiohttp",
    "duckdb",
    "fastapi",
    "genai_prices",
    "httpx2",
    "jinja2",
    "mcp",
    "narwhals",
    "numpy",
    "openai",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pydantic_settings",
    "pyspark",
    "scipy",
    "starlette",
    "uvicorn",
    "xllamacpp",
}

PROBE = """
import json, sys
before = set(sys.modules)
try:
    {body}
except SystemExit as stopped:
    assert not stopped.code, stopped.code
loaded = {{name.split(".")[0] for name in set(sys.modules) - before}}
print("\\n" + json.dumps(sorted(loaded - set(sys.stdlib_module_names))))
"""


def loaded_by(body: str) -> set[str]:
    """Top-level modules, the standard library's left out, that a fresh Python loads for this."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(body=body)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_peerage_loads_only_peerage() -> None:
    assert loaded_by("import peerage, peerage.plugins") <= MAY_LOAD_ON_IMPORT


def test_help_loads_nothing_heavy() -> None:
    run_help = "sys.argv = ['peerage', '--help']; from peerage.doors.cli import main; main()"
    assert not loaded_by(run_help) & HEAVY


def test_the_probe_sees_what_is_loaded() -> None:
    assert "numpy" in loaded_by("import numpy")
