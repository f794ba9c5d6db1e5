"""Judgements of MT-Bench: pairs judged in both orders, single grades, and people's votes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    count_words,
    rows_or_records,
)
from peerage.imports.formats import (
    Format,
    FormatFit,
    Row,
    formats,
    name_of,
    needs,
    pair_rows,
    winner_of,
)

FIELDS = {
    "question_id, turn": "the query; each turn is a session of its own",
    "judge": "the reviewer: a name, or a list of a name and a prompt",
    "model_1, model_2": "the candidates of a pair; model_1 is shown first in the first game",
    "g1_winner, g2_winner": "the first and the second game, with the answers swapped: two rounds",
    "model, score": "a single grade; -1 is a grade that could not be read",
    "model_a, model_b, winner": "a person's vote",
    "conversation_a, conversation_b": "for a vote: the words of the answers",
    "tstamp": "the time",
}
ADVICE = (
    "Let two judges or more judge the same answers, which shows agreement. Pairs with both games "
    "show position and consistency. Pairs and grades have no answers in them, so bias by "
    "length and style can be measured only from people's votes with conversations."
)
PAIR = ("question_id", "model_1", "model_2", "g1_winner", "g2_winner", "judge", "turn")
SINGLE = ("question_id", "model", "judge", "score", "turn", "judgment")
HUMAN = ("question_id", "model_a", "model_b", "winner", "judge", "turn", "conversation_a")
GAME = {"model_1": "first", "model_2": "second", "tie": "tie", "error": None}
VOTE = {"model_a": "first", "model_b": "second", "tie": "tie", "tie (inconsistent)": "tie"}
MODEL_JUDGES = ("gpt", "claude", "gemini", "llama")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits the nearest of the three kinds."""
    fits = [needs(beginning.record, *names) for names in (PAIR, SINGLE, HUMAN)]
    return max(fits, key=lambda fit: (not fit.lacks, fit.share))


def read(path: Path) -> Iterator[Row]:
    """Yield the reviews of each record: a pair, a single grade or a vote."""
    for place, record in rows_or_records(path, ""):
        if "model_1" in record:
            yield from _pair(record, path, place)
        elif "model_a" in record:
            yield from _vote(record, path, place)
        else:
            yield _single(record, path, place)


def _common(record: Record, path: Path, place: str) -> dict[str, object]:
    return {
        "reviewer": name_of(record.get("judge"), path, place, "judge"),
        "query_id": str(record.get("question_id")),
        "at": record.get("tstamp"),
    }


def _pair(record: Record, path: Path, place: str) -> Iterator[Row]:
    one, two = (name_of(record.get(name), path, place, name) for name in ("model_1", "model_2"))
    session = f"{record.get('question_id')} turn {record.get('turn')}: {one} / {two}"
    common = {"session_id": session, **_common(record, path, place)}
    for round_, (game, places) in enumerate((("g1_winner", (0, 1)), ("g2_winner", (1, 0)))):
        winner = winner_of(record.get(game), GAME, path, place, game)
        yield from pair_rows({**common, "round": round_}, one, two, winner, position=places)


def _single(record: Record, path: Path, place: str) -> Row:
    score = as_score(record.get("score"))
    return {
        "session_id": f"{record.get('question_id')} turn {record.get('turn')}",
        **_common(record, path, place),
        "candidate": name_of(record.get("model"), path, place, "model"),
        "score": None if score is None or score < 0 else score,
    }


def _vote(record: Record, path: Path, place: str) -> Iterator[Row]:
    one, two = (name_of(record.get(name), path, place, name) for name in ("model_a", "model_b"))
    common = _common(record, path, place)
    judge = str(common["reviewer"]).lower()
    is_person = not judge.startswith(MODEL_JUDGES)
    session = f"{record.get('question_id')} turn {record.get('turn')}: {one} / {two} ({place})"
    winner = winner_of(record.get("winner"), VOTE, path, place)
    texts = [_text(record.get(f"conversation_{side}")) for side in "ab"]
    yield from pair_rows(
        {"session_id": session, **common, "person": int(is_person)},
        one,
        two,
        winner,
        position=(0, 1),
        words=(count_words(texts[0]), count_words(texts[1])),
    )


def _text(conversation: object) -> str | None:
    """Return what the assistant wrote in a conversation."""
    if not isinstance(conversation, list):
        return None
    turns = [one for one in conversation if isinstance(one, dict)]
    texts = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
    return "\n\n".join(text for text in texts if isinstance(text, str))


formats.register("mt-bench")(
    Format("mt-bench", "judgements of MT-Bench", "reviews", sniff, read, FIELDS, advice=ADVICE)
)
