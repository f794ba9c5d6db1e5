"""`peerage label`: a person labels the answers of a file, one key each."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from peerage.doors.cli.screen import say, write_line
from peerage.errors import UsageError, how_many
from peerage.imports.formats.wide_labels import answers_in, labelled_in
from peerage.imports.label_files import (
    AnswerToLabel,
    add_label,
    labels_file,
    queue_of,
    read_labels,
)
from peerage.stats.tails import exact_bounds

KEYS = {"p": "pass", "f": "fail", "s": "skip"}
ASKED = "p pass, f fail, r reason for the next, s skip, q quit"
GOALS = (20, 40, 80, 160, 320)  # numbers of labels, of which the next is shown
END = ("q", "\x03", "\x04", "")


def label(
    file: Annotated[Path, Parameter(help="The table with the answers.")],
    /,
    *,
    person: Annotated[
        str, Parameter(help="Your name; by default that of the user of this machine.")
    ] = "",
) -> None:
    """Label answers of a file as pass or fail, one key each; the file itself is not changed.

    Answers come in a random order, without the judge's verdict: a random sample is what corrected
    pass rates need. Labels are kept in FILE.labels.csv, which `peerage audit FILE` reads by itself.
    You may stop at any time and go on later.
    """
    name = (person or getpass.getuser()).strip()
    if not name or not name.isprintable():
        raise UsageError("--person must be a name.")
    answers, labels = answers_in(file), read_labels(file)
    labelled = [(one.id, one.person) for one in labels]
    left = queue_of(answers, [*labelled, *labelled_in(file)], name)
    own = [one.label for one in labels if one.person == name]
    if not left:
        write_line(f"{name} has labelled all answers: {how_many(len(own), 'label')}.")
        return
    if sys.stdin.isatty():
        write_line(f"{how_many(len(left), 'answer')} to label. Keys: {ASKED}.")
    with suppress(KeyboardInterrupt):
        _ask(file, left, name, own)
    n_labels = how_many(sum(one != "skip" for one in own), "label")
    say(f"{n_labels} by {name} in {labels_file(file).name}. Next: peerage audit {file}")


def _ask(file: Path, left: Sequence[AnswerToLabel], person: str, own: list[str]) -> None:
    """Show one answer after the other, and write each label as it is given."""
    keys = _keys()
    for one in left:
        write_line(f"\n{progress(own)}", multiline=True)
        if one.question:
            write_line(f"Question: {one.question}", multiline=True)
        write_line(f"Answer:\n{one.answer}", multiline=True)
        reason = ""
        while (key := next(keys, "")) not in KEYS:
            if key in END:
                return
            if key == "r":
                reason = _read_line("Reason: ")
            else:
                write_line(f"Keys: {ASKED}.")
        add_label(file, one.id, KEYS[key], reason, person)
        own.append(KEYS[key])
        write_line(KEYS[key])


def progress(own: Sequence[str]) -> str:
    """Return how many labels there are, and how well the pass rate is known by them."""
    n, n_pass = sum(one != "skip" for one in own), sum(one == "pass" for one in own)
    goal = next((goal for goal in GOALS if goal > n), None)
    if n < 2:
        return f"{how_many(n, 'label')}. From about 20 on the judge's pass rate can be corrected."
    sentence = f"{n} labels, {n_pass} pass; half-width of the pass rate now {_half(n_pass, n)}"
    return sentence if goal is None else f"{sentence}, at {goal} about {_half(n_pass, n, goal)}"


def _half(n_pass: int, n: int, goal: int | None = None) -> str:
    many = n if goal is None else goal
    low, high = exact_bounds(n_pass / n * many, many)
    return f"±{50 * (high - low):.0f} points"


def _keys() -> Iterator[str]:
    """Yield what the person presses: single keys on a terminal, the first letters of lines else."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            yield line.strip()[:1].lower()
        return
    while True:
        yield _read_key()


def _read_key() -> str:
    """Return one key without waiting for Enter."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        return sys.stdin.read(1).lower()
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _read_line(question: str) -> str:
    write_line(question)
    return sys.stdin.readline().strip()
