"""Files that are read, and folders that are written: completely or not at all.

A device, a pipe or a socket in the place of a file is refused: it may never end.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from peerage.errors import InputError, UsageError

KINDS = (  # of what is not a file, although it can be opened; some never end or wait for ever
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def special_kind(path: str | os.PathLike[str]) -> str:
    """Return what a path is if it is neither a file nor a folder, such as "a pipe"; else ""."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - Path raises where a name is too long
    except (OSError, ValueError):  # it is missing: opening it says so
        return ""
    return next((name for is_kind, name in KINDS if is_kind(mode)), "")


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Raise an error for a path that is neither a file nor a folder."""
    if kind := special_kind(path):
        raise InputError(
            f"it is {kind}, not a file.", place=str(path), hint="Save its content to a file."
        )


def refuse_special_files(_: object, value: object) -> None:
    """Raise an error if the value of an option, or one of several, is a path of that kind."""
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, Path):
            refuse_special(one)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill, which then becomes this folder, completely or not at all.

    If the folder exists, it must be empty. If the process is killed, the folder is as it was, and
    the next run can write it. An error of the operating system becomes a UsageError.
    """
    try:
        if folder.exists() and any(folder.iterdir()):  # of a file, an error of the system
            raise UsageError("this folder is not empty.", place=str(folder), hint="Name a new one.")
        missing = [one for one in folder.parents if not one.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = folder.parent / f".{secrets.token_hex(8)}.tmp"
        fresh.mkdir()
        try:
            yield fresh
            fresh.replace(folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            with suppress(OSError):
                for parent in missing:
                    parent.rmdir()
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(folder)) from None
