"""DuckDB with restricted access: an in-memory database that reads only the given files.

It loads no extensions, does not read Python variables as tables, and its settings are locked.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}


def database(
    files: Iterable[str] = (),
    folders: Iterable[str] = (),
    limits: Mapping[str, str | int] = MappingProxyType({}),
) -> duckdb.DuckDBPyConnection:
    """Return a new empty database that can reach these files and folders.

    Pass paths in the form that `real_path` returns.
    """
    import duckdb

    spill = os.path.join(tempfile.gettempdir(), f"peerage-spill-{uuid.uuid4().hex}")  # noqa: PTH118
    connection = duckdb.connect(config={"temp_directory": spill, **CLOSED, **limits})
    reach = sorted({name for path in files for name in (path, pattern(path))})
    connection.execute("set allowed_paths = ?", [reach])
    connection.execute("set allowed_directories = ?", [list(folders)])
    connection.execute("set global TimeZone = 'UTC'")  # the same on every machine
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def pattern(path: str) -> str:
    """Return a path with DuckDB's wildcard characters escaped, so that it matches only itself."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether the file exists; False for an invalid file name."""
    return os.path.isfile(path)  # noqa: PTH113 - Path raises where a name is too long


def real_path(path: str | os.PathLike[str]) -> str:
    """Return the real path of a file, the form that DuckDB checks before it opens a file."""
    return os.path.realpath(path)
