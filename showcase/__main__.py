"""`python -m showcase DIR [NAME …] [--to FOLDER]`: build the pages of sets whose files are in DIR.

Ends with 2 where a set is not known or none of the folders is there.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from peerage.errors import PeerageError
from showcase import PublicSet, public_sets
from showcase.layout import index_page

PAGES = Path(__file__).resolve().parent.parent / "docs" / "showcase"


def main(arguments: list[str]) -> int:
    """Write the pages, and say which were written and which sets are not there."""
    parser = ArgumentParser(prog="./dev showcase", description="Rebuild docs/showcase.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="holds a folder for each set")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these sets")
    parser.add_argument("--to", type=Path, default=PAGES, help="default: docs/showcase")
    given = parser.parse_args(arguments)
    sets = public_sets()
    known = {one.name: one for one in sets}
    if unknown := [name for name in given.names if name not in known]:
        return _fail(f"there is no set {unknown[0]!r}. Known: {', '.join(known)}.")
    chosen = [known[name] for name in given.names] or list(sets)
    given.to.mkdir(parents=True, exist_ok=True)
    try:
        n_built = sum(_build(one, given.folder, given.to) for one in chosen)
    except PeerageError as error:
        return _fail(str(error))
    if not n_built:
        return _fail(f"{given.folder} holds none of: {', '.join(o.source.folder for o in chosen)}.")
    _write(given.to / "README.md", index_page(sets))
    return 0


def _build(one: PublicSet, folder: Path, target: Path) -> bool:
    """Write the page of a set with its charts; return False where its files are not there."""
    files = folder / one.source.folder
    if not files.is_dir():
        _say(f"{one.name}: no folder {files}; its page stays as it is")
        return False
    page = one.build(files)
    _write(target / f"{one.name}.md", page.text)
    for name, chart in sorted(page.charts.items()):
        _write(target / name, chart)
    _say(f"{one.name}: {target / one.name}.md")
    return True


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def _say(text: str) -> None:
    print(f"showcase: {text}", file=sys.stderr)


def _fail(text: str) -> int:
    _say(text)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
