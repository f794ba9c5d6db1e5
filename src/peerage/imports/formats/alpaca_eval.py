"""Annotations of AlpacaEval: which of two outputs an annotator prefers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from peerage.errors import InputError
from peerage.imports.foreign_records import Beginning, as_score, count_words, hash_text, records
from peerage.imports.formats import Format, FormatFit, Row, formats, name_of, needs, pair_rows

FIELDS = {
    "instruction": "the query",
    "generator_1, generator_2": "the candidates",
    "output_1, output_2": "their words",
    "annotator": "the reviewer",
    "preference": "1 for the first, 2 for the second, 0 or 1.5 for a tie; between 1 and 2 the "
    "probability that the second is better, plus 1; null is an abstention",
    "dataset": "the category",
}
ADVICE = (
    "The order in which an annotator saw the outputs is not in the file, so position bias "
    "cannot be measured. Have some outputs annotated again, by a second annotator or by the "
    "same one."
)
TIES = (0.0, 1.5)


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: two generators and a preference."""
    return needs(beginning.record, "instruction", "generator_1", "generator_2", "preference")


def read(path: Path) -> Iterator[Row]:
    """Yield the two rows of each annotation."""
    for place, record in records(path, ""):
        names = [
            name_of(record.get(f"generator_{i}"), path, place, f"generator_{i}") for i in (1, 2)
        ]
        instruction = str(record.get("instruction") or "")
        query = hashlib.sha256(instruction.encode("utf-8", "replace")).hexdigest()[:16]
        common = {
            "session_id": f"{query}: {names[0]} / {names[1]}",
            "reviewer": str(record.get("annotator") or "annotator"),
            "query_id": query,
            "category": record.get("dataset"),
        }
        outputs = [record.get(f"output_{i}") for i in (1, 2)]
        words = (count_words(outputs[0]), count_words(outputs[1]))
        keys = (hash_text(outputs[0]), hash_text(outputs[1]))
        given = as_score(record.get("preference"))
        if given is None:
            yield from pair_rows(common, names[0], names[1], None, words=words, text_hash=keys)
            continue
        if given not in TIES and not 1.0 <= given <= 2.0:
            raise InputError(
                f"a preference cannot be {given:g}.",
                place=f"{path}, {place}",
                hint="It is 1 for the first output, 2 for the second, 0 or 1.5 for a tie.",
            )
        second = 0.5 if given in TIES else given - 1.0
        winner = "tie" if second == 0.5 else "second" if second > 0.5 else "first"
        yield from pair_rows(
            common,
            names[0],
            names[1],
            winner,
            words=words,
            text_hash=keys,
            score=(1.0 - second, second),
        )


formats.register("alpaca-eval")(
    Format(
        "alpaca-eval", "annotations of AlpacaEval", "reviews", sniff, read, FIELDS, advice=ADVICE
    )
)
