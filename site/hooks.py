"""Pages that are made from the code when the site is built, and links that leave the site."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

FOLDERS = (
    ("Topics", "formats", "Formats of judgements"),
    ("Why", "showcase", "Public boards, one by one"),
    ("Why", "decisions", "Decisions"),
)
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:tests|src|bench|prove|action\.yml)[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of folders, so that a new page is in the navigation without a further line."""
    sections: dict[str, list[Any]] = {}
    for section in config.nav or []:
        sections |= section
    for title, folder, names in FOLDERS:
        place = Path(config.docs_dir) / folder
        pages = sorted(path.name for path in place.glob("*.md") if path.name != "README.md")
        if pages:
            sections[title].append({names: [f"{folder}/{name}" for name in pages]})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    from mkdocs.structure.files import File

    made = {"commands": commands_page, "http": http_page, "metrics": metrics_page}
    for name, page in made.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links to files of the repository into their plain text."""
    return OUTSIDE.sub(r"\1", markdown)


# -- commands ----------------------------------------------------------------------------------


def command_paths(parent: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, those of groups included."""
    for name in parent:
        if name.startswith("-"):
            continue
        yield (*names, name)
        yield from command_paths(parent[name], (*names, name))


def commands_page() -> str:
    """Return every command with its help."""
    from peerage.doors.cli import app

    lines = ["# Commands", "", "As `peerage COMMAND --help` prints them.", ""]
    for path in command_paths(app):
        printed = io.StringIO()
        with redirect_stdout(printed):
            app.help_print(path)
        text = "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())
        lines += [f"## peerage {' '.join(path)}", "", "```text", text, "```", ""]
    return "\n".join(lines)


# -- HTTP --------------------------------------------------------------------------------------


def http_page() -> str:
    """Return every route with its parameters, from the schema that the server serves."""
    from peerage import Council
    from peerage.doors.http import create_app
    from peerage.service import Service

    schema = create_app(Service(Council(needs_seats=False, store="sqlite:///:memory:"))).openapi()
    lines = ["# HTTP", "", "A server answers the same as JSON Schema at `/openapi.json`.", ""]
    for path, methods in sorted(schema["paths"].items()):
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}", ""]
            lines += [str(route.get("description") or route.get("summary") or ""), ""]
            parameters = route.get("parameters", [])
            if parameters:
                lines += ["| parameter | in | meaning |", "|---|---|---|"]
                lines += [
                    f"| `{one['name']}` | {one['in']} | {_cell(one.get('description', ''))} |"
                    for one in parameters
                ]
                lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


# -- metrics -----------------------------------------------------------------------------------


def metrics_page() -> str:
    """Return every metric of the audit with the columns that it needs."""
    from peerage.biases import metrics

    lines = ["# Metrics of the audit", "", "[The audit](../audit.md) explains each of them.", ""]
    lines += ["| metric | columns it needs besides reviewer, candidate and score |", "|---|---|"]
    for name in sorted(metrics.names()):
        columns = ", ".join(f"`{one}`" for one in metrics.get(name).needs) or "none"
        lines.append(f"| `{name}` | {columns} |")
    return "\n".join([*lines, ""])
