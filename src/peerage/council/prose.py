"""Last resorts, for replies without a verdict in JSON: a table, a final ranking, a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from peerage.council.keys import fold_key
from peerage.council.labels import LETTERS, Labels
from peerage.council.rankings import RANK_KEYS, Ranking, Tiers, by_rank, read_rank
from peerage.council.verdicts import Said, read_mark

MAX_ROWS = 1000
MAX_CELLS = 100
MAX_LINE = 2000

Row = list[str]

FINAL_RANKING = re.compile(
    r"\bfinal[ \t_]{1,3}rankings?\b[ \t*_]*+(?:\([^()\n]{0,80}+\))?[ \t*_]*+"
    r"(?:[:=]|is\b|$)[ \t*_:]*+",
    re.IGNORECASE | re.MULTILINE,
)
NUMBERED = re.compile(
    r"[ \t*_#]{0,20}+(\d{1,4})(?:[ \t]?[.):](?!\d)|st\b|nd\b|rd\b|th\b)[:*_]{0,4}[ \t]*+(\S.*)"
)
BULLET = re.compile(r"[ \t]{0,20}+[-*•][ \t]+(\S.*)")
REFUSAL = re.compile(
    r"\bI(?:['’]m| am) (?:sorry|unable|not able|not comfortable)|\bI (?:can(?:not|['’]t)|won['’]t"
    r"|will not|must decline|have to decline|refuse|decline)\b|\bas an AI\b|\bunable to (?:assist"
    r"|help|judge|evaluate|rank|comply)|\bcan(?:not|['’]t) (?:assist|help|comply|fulfil)",
    re.IGNORECASE,
)


def is_refusal(prose: str) -> bool:
    """Whether somebody here declines; only asked where nothing else could be read."""
    return REFUSAL.search(prose) is not None


def said_in_prose(prose: str, labels: Labels) -> Said | None:
    """The verdict of a table or a final ranking, or of both where the table has no ranks."""
    tiers = final_ranking(prose, labels)
    table = next(tables(prose, labels), None)
    if table is None:
        return Said({"ranking": tiers}, ("final_ranking",)) if tiers else None
    if tiers and not any("rank" in answer for answer in table["evaluations"]):
        return Said({**table, "ranking": tiers}, ("table", "final_ranking"))
    return Said(table, ("table",))


# -- final rankings ----------------------------------------------------------------------------


def final_ranking(prose: str, labels: Labels) -> Tiers:
    """The tiers under the last "FINAL RANKING:" that names a label of the ballot."""
    end = len(prose)
    for heading in reversed(list(FINAL_RANKING.finditer(prose))):
        tiers = _under(prose[heading.end() : end], labels)
        if any(labels.find(label) for tier in tiers for label in tier):
            return tiers
        end = heading.start()
    return []


def _under(section: str, labels: Labels) -> Tiers:
    """What follows a heading: a ranking on the same or next line, else a list of items."""
    lines = [line for line in section.splitlines()[: 2 * MAX_ROWS] if line.strip()]
    if not lines:
        return []
    first = lines[0][:MAX_LINE].strip()
    if not (NUMBERED.match(first) or BULLET.match(first)):
        tiers = Ranking(labels).from_text(first)
        return tiers if any(labels.find(name) for tier in tiers for name in tier) else []
    return _listed(lines, labels)


def _listed(lines: list[str], labels: Labels) -> Tiers:
    """A numbered list, or failing numbers one with bullets; remarks between items are passed over.

    Equal numbers tie, but a list whose every number is the same was left to be numbered
    by whoever shows it.
    """
    numbered: list[tuple[Tiers, float]] = []
    for line in lines:
        match = NUMBERED.match(line[:MAX_LINE])
        if match is None:
            continue
        number = float(match[1])
        if numbered and number < numbered[-1][1]:
            break  # another list
        numbered.append((_item(match[2], labels), number))
    if not numbered:
        bullets = (BULLET.match(line[:MAX_LINE]) for line in lines)
        return [tier for match in bullets if match for tier in _item(match[1], labels)]
    if len({number for _, number in numbered}) == 1:
        return [tier for tiers, _ in numbered for tier in tiers]
    return by_rank([(name, n) for tiers, n in numbered for tier in tiers for name in tier])


def _item(text: str, labels: Labels) -> Tiers:
    """The label or labels that an item of a list names; nothing if it is about something else."""
    tier = tuple(Ranking(labels).tied(text))
    return [tier] if any(labels.find(name) or LETTERS.fullmatch(name) for name in tier) else []


# -- tables ------------------------------------------------------------------------------------


def tables(prose: str, labels: Labels) -> Iterator[dict[str, Any]]:
    """Verdicts in the markdown tables of a reply, the last table first.

    Answers may stand in rows or in columns. A table without a rank or mark is none.
    """
    for rows in reversed(list(_blocks(prose))):
        header, *body = rows
        columns = [i for i, cell in enumerate(header) if labels.find(cell)]
        if len(columns) > 1:
            answers = [
                {"label": header[i], **{row[0]: row[i] for row in body if i < len(row)}}
                for i in columns
            ]
        else:
            answers = _by_row(header, body, labels)
        if any(map(_is_judged, answers)):
            yield {"evaluations": [_worded(answer) for answer in answers]}


def _blocks(prose: str) -> Iterator[list[Row]]:
    """Runs of at least two lines with cells, rulers left out."""
    rows: list[Row] = []
    for line in [*prose.splitlines(), ""]:
        if "|" in line:
            if len(rows) < MAX_ROWS and not _is_ruler(line):
                cells = line.strip().removeprefix("|").removesuffix("|").split("|", MAX_CELLS)
                rows.append([cell.strip(" \t*_`") for cell in cells])
        else:
            if len(rows) > 1:
                yield rows
            rows = []


def _is_ruler(line: str) -> bool:
    return "-" in line and not line.strip(" \t:-=+|")


def _by_row(header: Row, body: list[Row], labels: Labels) -> list[dict[str, str]]:
    width = min(len(header), MAX_CELLS)
    counts = [sum(i < len(row) and bool(labels.find(row[i])) for row in body) for i in range(width)]
    at = counts.index(max(counts))
    answers = []
    for row in body:
        if at < len(row) and row[at]:
            cells = {
                name: cell
                for i, (name, cell) in enumerate(zip(header, row, strict=False))
                if i != at
            }
            answers.append({**cells, "label": row[at]})
    return answers if counts[at] else []


def _is_judged(answer: dict[str, str]) -> bool:
    return any(
        read_rank(cell) is not None if fold_key(name) in RANK_KEYS else read_mark(cell) is not None
        for name, cell in answer.items()
        if name != "label"
    )


def _worded(answer: dict[str, str]) -> dict[str, Any]:
    """An answer's cells as an evaluation: words that are no mark are notes, blanks nothing."""
    worded: dict[str, Any] = {}
    notes = []
    for name, cell in answer.items():
        if name != "label" and " " in cell and read_mark(cell) is None:
            notes.append(cell)
        elif cell and name:
            worded["rank" if fold_key(name) in RANK_KEYS else name] = cell
    return {**worded, "notes": notes}
