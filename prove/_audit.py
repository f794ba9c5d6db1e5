"""Known vulnerabilities of the locked versions, as far as the service of the index can be asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from prove import Line
from prove._lock import LOCKS

NAME = "known vulnerabilities in the locks"
LIMIT_S = 600


def audit_locks(folder: Path) -> Line:
    """Return whether a locked version has a known vulnerability, or why that is not known."""
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    try:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([*map(str, install), "-r", str(LOCKS / "audit.txt")])
        locks = [word for path in sorted(LOCKS.glob("*.txt")) for word in ("-r", str(path))]
        words = ["-m", "pip_audit", "--disable-pip", "--format", "json", "--progress-spinner"]
        done = _run([str(python), *words, "off", *locks], allowed=(0, 1))
    except (OSError, subprocess.SubprocessError) as error:
        return Line(NAME, 0, f"not checked: {type(error).__name__}", True)
    return line_of(done.stdout, done.stderr)


def _run(command: list[str], allowed: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(  # noqa: S603 - our words
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode not in allowed:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done


def line_of(output: str, errors: str) -> Line:
    """Return the line for what pip-audit printed.

    A package that its service does not answer for is not a package without vulnerabilities.
    """
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (errors.strip().splitlines() or ["no report"])[-1]
        return Line(NAME, 0, f"not checked, the service could not be asked: {reason[:120]}", True)
    checked = [package for package in packages if "skip_reason" not in package]
    if not checked:
        return Line(NAME, 0, "not checked, the service answered for no package", True)
    found = {
        f"{package['name']} {package['version']}: {one['id']}"
        for package in checked
        for one in package["vulns"]
    }
    n_skipped = len(packages) - len(checked)
    words = "; ".join(sorted(found)) or "none found"
    words += f"; {n_skipped} of {len(packages)} not checked" if n_skipped else ""
    return Line(NAME, len(checked), words, not found)
