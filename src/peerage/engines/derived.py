"""Files that are made from the log: written whole, checked when they are opened, made again.

Such a file comes with a digest of its bytes: in the list that names it, or in its first line.
A file that does not match its digest is never read.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

log = logging.getLogger(__name__)

N_DIGESTS = 10_000  # of files that this process has read, kept for the next look


def replace_file(target: Path, parts: Iterable[bytes]) -> None:
    """Write a file whole or not at all, also while others write it."""
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as data:
        try:
            data.writelines(parts)
            data.close()
            Path(data.name).replace(target)
        except BaseException:
            Path(data.name).unlink(missing_ok=True)
            raise


def digest_of(path: Path) -> str:
    """Return the digest of a file's bytes.

    A process reads each file once, and again when its inode, size or times have changed.
    """
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    return _digest(path, (status.st_dev, status.st_ino, status.st_size, *times))


@lru_cache(maxsize=N_DIGESTS)
def _digest(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001 - a part of the key
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def is_whole(path: Path, digest: str) -> bool:
    """Whether a file is there and holds the bytes that it was written with."""
    try:
        return digest_of(path) == digest
    except OSError:
        return False


def write_sealed(target: Path, body: bytes) -> None:
    """Write bytes to a file that begins with their digest."""
    replace_file(target, [_seal(body), body])


def read_sealed(path: Path) -> bytes | None:
    """Return the bytes of a sealed file, or None where it is missing or damaged."""
    try:
        seal, newline, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if seal + newline == _seal(body) else None


def _seal(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"
