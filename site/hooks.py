"""Pages that are made from the code when the site is built, and links that leave the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))
from reference import metric_names, pages, rule_names

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FOLDERS = (
    ("Topics", "formats", "Formats of judgements"),
    ("Why", "showcase", "Public boards, one by one"),
    ("Why", "decisions", "Decisions"),
)
ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(?:tests|src|bench|prove|action\.yml|ci\b)[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of folders, so that a new page is in the navigation without a further line."""
    sections: dict[str, list[Any]] = {}
    for section in config.nav or []:
        sections |= section
    for title, folder, names in FOLDERS:
        place = Path(config.docs_dir) / folder
        found = sorted(path.name for path in place.glob("*.md") if path.name != "README.md")
        if found:
            sections[title].append({names: [f"{folder}/{name}" for name in found]})
    for section, names in (("rules", rule_names()), ("metrics", metric_names())):
        title = {"rules": "Rules, one by one", "metrics": "Metrics, one by one"}[section]
        sections["Reference"].append(
            {title: [f"reference/{section}/{name}.md" for name in ("index", *names)]}
        )
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code, and the script that search needs in a folder."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    security = (ROOT / "SECURITY.md").read_text("utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "security.md", content=security))
    worker = Path(__file__).with_name("iframe-worker.js").read_text("utf-8")
    files.append(File.generated(config, "assets/iframe-worker.js", content=worker))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Link rules and metrics to their pages; turn links into the repository into plain text."""
    markdown = OUTSIDE.sub(r"\1", markdown).replace("](../SECURITY.md", "](security.md")
    listed = {"audit.md": ("metrics", metric_names()), "rules.md": ("rules", rule_names())}
    if page.file.src_uri in listed:
        section, names = listed[page.file.src_uri]
        known = "|".join(names)
        first_cell = re.compile(rf"^\| `({known})`", re.MULTILINE)
        markdown = first_cell.sub(rf"| [`\1`](reference/{section}/\1.md)", markdown)
    return markdown
