"""Files that commands write: whole or not at all, with the old one kept where writing fails."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from peerage.errors import UsageError


def write_file(path: Path, write_to: Callable[[Path], object]) -> None:
    """Let a function write a file under a name of its own, then put it in place at once.

    A device or a pipe is written to directly. What the system refuses is a UsageError.
    """
    try:
        target = Path(os.path.realpath(path))  # a link stays a link
        if target.is_dir():
            raise UsageError("this is a folder.", place=str(path), hint="Name a file.")
        if not target.parent.is_dir():
            raise UsageError("its folder does not exist.", place=str(path), hint="Make it first.")
        if target.exists() and not target.is_file():
            write_to(target)
        else:
            _replace(target, write_to)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(path)) from None


def _replace(target: Path, write_to: Callable[[Path], object]) -> None:
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(None, "the file is read-only", str(target))
    fresh = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        write_to(fresh)
        if target.exists():
            shutil.copymode(target, fresh)
        fresh.replace(target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
