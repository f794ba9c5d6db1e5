"""The package as it would be released: built twice alike, installed alone, with a list of parts.

`./dev build` writes the source archive, the wheel and the list of parts (CycloneDX) to dist/.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from prove import Line
from prove._audit import audit_locks
from prove._extras import try_extras

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NOT_COPIED = shutil.ignore_patterns(
    ".*_cache", ".venv", ".git", ".hypothesis", "__pycache__", "build", "dist"
)
EPOCH = "1700000000"  # of a build that nobody releases


def run(quick: bool) -> Iterator[Line]:  # noqa: ARG001 - there is one form
    """Check the build, and the wheel in an empty environment, alone and with each extra."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = [build_copy(folder / str(i)) for i in range(2)]
        same = [one.read_bytes() == two.read_bytes() for one, two in zip(*built, strict=True)]
        yield Line(
            "builds of two copies", 2, f"{same.count(False)} of {len(same)} files differ", all(same)
        )
        document = list_parts(EPOCH)
        wanted = {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]}
        listed = {part["name"] for part in document["components"]}
        missing = {one for one in wanted if _is_installed(one)} - listed
        yield Line(
            "parts in the SBOM",
            len(listed),
            f"{len(missing)} of {len(wanted)} missing",
            not missing,
        )
        wheel, archive = sorted(built[0], key=lambda file: file.suffix != ".whl")
        same_wheel = build_again(archive, folder / "unpacked").read_bytes() == wheel.read_bytes()
        words = "the same wheel" if same_wheel else "another wheel"
        yield Line("the source archive builds", 1, words, same_wheel)
        yield audit_locks(folder / "audit")
        yield from try_extras(wheel, folder / "environment", PROJECT["optional-dependencies"])


def build_copy(folder: Path) -> list[Path]:
    """Build a copy of the sources, whose files have other times; return the built files."""
    shutil.copytree(ROOT, folder / "copy", ignore=NOT_COPIED, copy_function=shutil.copyfile)
    return build(folder / "copy", folder / "dist", EPOCH)


def build(sources: Path, target: Path, epoch: str) -> list[Path]:
    """Build the source archive and the wheel, with all times set to one; return them sorted."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    subprocess.run(command, cwd=sources, env=environ, check=True, capture_output=True)  # noqa: S603
    return sorted(target.iterdir())


def build_again(archive: Path, folder: Path) -> Path:
    """Build the wheel from the source archive; return it."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    sources = next(folder.iterdir())
    return next(file for file in build(sources, folder / "dist", EPOCH) if file.suffix == ".whl")


# -- the list of parts ---------------------------------------------------------------------------


def list_parts(epoch: str) -> dict[str, Any]:
    """Return the package and what it needs, with their versions and licences, as CycloneDX."""
    needs: dict[str, list[str]] = {}
    waiting: list[str] = [canonicalize_name(PROJECT["name"])]
    while waiting:
        name = waiting.pop()
        if name not in needs and _is_installed(name):
            needs[name] = sorted(set(_needs_of(name)))
            waiting += needs[name]
    own, *_ = needs
    digest = hashlib.sha256(json.dumps([epoch, needs, [*map(_version, needs)]]).encode())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=digest.digest()[:16])}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(epoch), UTC).isoformat(),
            "component": _part(own, "application"),
        },
        "components": [_part(name, "library") for name in sorted(needs) if name != own],
        "dependencies": [
            {
                "ref": _address(name),
                "dependsOn": [_address(one) for one in needs[name] if one in needs],
            }
            for name in sorted(needs)
        ],
    }


def _needs_of(name: str) -> Iterator[str]:
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _part(name: str, kind: str) -> Mapping[str, Any]:
    about = metadata.metadata(name).json
    licence = str(about.get("license_expression") or about.get("license") or "")
    known = (
        {"licenses": [{"license": {"name": licence.splitlines()[0]}}]} if licence.strip() else {}
    )
    address = _address(name)
    part = {"type": kind, "bom-ref": address, "name": name, "version": _version(name)}
    return {**part, "purl": address, **known}


def _address(name: str) -> str:
    return f"pkg:pypi/{name}@{_version(name)}"


def _version(name: str) -> str:
    return metadata.version(name)


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Write the files of a release to dist/, dated by SOURCE_DATE_EPOCH or the last commit."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or done.stdout.strip() or EPOCH
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    build(ROOT, target, epoch)
    parts = target / f"{PROJECT['name']}-{PROJECT['version']}.cdx.json"
    parts.write_text(json.dumps(list_parts(epoch), indent=2) + "\n", "utf-8")
    for file in sorted(target.iterdir()):
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  dist/{file.name}")


if __name__ == "__main__":
    main()
