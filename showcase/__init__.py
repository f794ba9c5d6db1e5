"""Public boards, audited: each set is a folder that a reader fetches, and becomes one page.

`./dev showcase DIR` reads the folders in DIR and writes `docs/showcase/`. Nothing that was fetched
is kept: a page holds our sentences and figures. The same files give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from peerage.errors import InputError


@dataclass(frozen=True)
class Source:
    """Where the files of a set come from, and under which licence."""

    folder: str  # in the reader's folder
    repository: str
    commit: str
    paths: tuple[str, ...]  # patterns of the files that are read
    licence: str
    authors: str

    def read_digest(self, folder: Path) -> tuple[int, str]:
        """Return how many files are read, and one SHA-256 over their names and bytes."""
        files = self.files(folder)
        digest = hashlib.sha256()
        for file in files:
            name = file.relative_to(folder).as_posix()
            digest.update(f"{name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        return len(files), digest.hexdigest()

    def files(self, folder: Path, *patterns: str) -> list[Path]:
        """Return the files of these patterns, by default of all, in the order of their names."""
        files = sorted({file for p in patterns or self.paths for file in folder.glob(p)})
        if not files:
            raise InputError(
                f"there is no {' or '.join(patterns or self.paths)}.",
                place=str(folder),
                hint=f"Fetch {self.repository} at {self.commit[:12]} into this folder.",
            )
        return files


@dataclass(frozen=True)
class Page:
    """A page in Markdown, with the charts that it shows, by file name."""

    text: str
    charts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PublicSet:
    """A public set: its name, a line about it, where it comes from, and what builds its page."""

    name: str
    title: str
    about: str
    source: Source
    build: Callable[[Path], Page]


def public_sets() -> Sequence[PublicSet]:
    """Return all sets, in the order of the index."""
    from showcase import debate, llmbar, pandalm, peer_rank, trajectories

    return (debate.SET, pandalm.SET, peer_rank.SET, llmbar.SET, trajectories.SET)
