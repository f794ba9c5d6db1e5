"""How this copy of the package was installed, and so which command adds an extra to it."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path

STAMP = ".peerage-stamp"  # in an environment that `./dev` made


@lru_cache(maxsize=32)
def install_command(extra: str) -> str:
    """The command that adds an extra here: to a clone, to a copy of one, or from an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = distribution("peerage").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    return command_for(extra, origin, is_made_by_dev=(Path(sys.prefix) / STAMP).exists())


def command_for(extra: str, origin: str | None, *, is_made_by_dev: bool = False) -> str:
    """The command for a package of an origin, which is None or the text of its direct_url.json."""
    import shlex
    from urllib.parse import unquote, urlsplit

    where = json.loads(origin) if origin else {}
    url = where.get("url", "")
    parts = urlsplit(url)
    if parts.scheme != "file":
        wanted = f"peerage[{extra}]"
        if vcs := where.get("vcs_info", {}).get("vcs"):
            wanted += f" @ {vcs}+{url}"
        elif url:
            wanted += f" @ {url}"
        return f"pip install {shlex.quote(wanted)}"
    folder = unquote(parts.path)
    if is_made_by_dev:
        return f"{shlex.quote(f'{folder}/dev')} setup {extra}"
    editable = "--editable " if where.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{folder}[{extra}]')}"
