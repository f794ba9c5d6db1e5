"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Default: ./peerage.toml.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout and nothing else there.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Say only what was asked for.")]
