"""The image without an engine: the steps of the Dockerfile, run in a folder instead of a root.

`python -m tests.image_root FOLDER` copies and runs what the Dockerfile says, with /opt, /src and
/data in that folder. As in an engine, a step runs only if it, its files or a step before it have
changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = ".layers.json"  # the digests of the steps that the folder was made by
OWNER = re.compile(r"10001")
PLACE = re.compile(r"(?<![\w.:/-])/(?=(?:opt|src|data)\b)")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: its name, its words, and the folder that it runs in."""

    name: str
    text: str
    workdir: str

    def copied(self, context: Path) -> list[Path]:
        """Return the files of the project that it copies."""
        if self.name != "COPY" or "--from=" in self.text:
            return []
        named = [context / name for name in self.text.split()[:-1]]
        return [file for path in named for file in sorted(_files(path))]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    else:
        inner = (one for one in path.rglob("*") if "__pycache__" not in one.parts)
        yield from (one for one in inner if one.is_file())


def read_steps(context: Path = ROOT) -> list[Step]:
    """Return the instructions of the Dockerfile, without comments."""
    text = re.sub(r"^#.*\n", "", (context / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    steps, workdir = [], "/"
    for line in text.replace("\\\n", "").splitlines():
        name, _, rest = line.partition(" ")
        if name == "WORKDIR":
            workdir = rest.strip()
        if name:
            steps.append(Step(name, rest.strip(), workdir))
    return steps


def digests(context: Path = ROOT) -> list[str]:
    """Return a digest of each step: of its text, of its files, and of the steps before it."""
    chain, found = hashlib.sha256(), []
    for step in read_steps(context):
        chain.update(f"{step.name} {step.text}\0".encode())
        for file in step.copied(context):
            chain.update(f"{file.relative_to(context)}\0".encode())
            chain.update(file.read_bytes())
        found.append(chain.hexdigest())
    return found


def inside(text: str, root: Path) -> str:
    """Return a text whose absolute places are in a folder, and whose owner is this user."""
    return OWNER.sub(str(os.getuid()), PLACE.sub(f"{root}/", text))


def build(root: Path, context: Path = ROOT) -> list[Step]:
    """Bring the folder up to date with the Dockerfile; return the steps that were run."""
    wanted = digests(context)
    try:
        done: list[str] = json.loads((root / LAYERS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        done = []
    same = 0
    while same < min(len(done), len(wanted)) and done[same] == wanted[same]:
        same += 1
    steps = read_steps(context)
    first_run = next(i for i, step in enumerate(steps) if step.name == "RUN")
    if same <= first_run:
        shutil.rmtree(root, ignore_errors=True)
        same = 0
    root.mkdir(parents=True, exist_ok=True)
    (root / LAYERS).unlink(missing_ok=True)
    for step in steps[same:]:
        _do(step, root, context)
    (root / LAYERS).write_text(json.dumps(wanted), encoding="utf-8")
    return steps[same:]


def _do(step: Step, root: Path, context: Path) -> None:
    folder = root / step.workdir.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    for file in step.copied(context):
        copy = folder / file.relative_to(context)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    if step.name == "RUN":
        # The Python that runs this is the Python of the image.
        environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = ["sh", "-euc", inside(step.text, root)]
        subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute())
