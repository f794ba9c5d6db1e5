"""What a client's program reports: it calls the council in each way, and prints what came back."""

import json
import sys

from pydantic import BaseModel

URL = sys.argv[1]
QUESTION = "Is Python's sort stable?"
UNKNOWN = "gpt-9"  # a model that the server does not have


class Judgement(BaseModel):
    """A judgement of a claim."""

    answer: str
    confidence: float


def report(**outcomes: object) -> None:
    """Print the outcomes as JSON, on a line of its own."""
    plain = {
        name: value.model_dump() if isinstance(value, BaseModel) else value
        for name, value in outcomes.items()
    }
    print("\n" + json.dumps(plain))


def error_of(call, kind: type[Exception]) -> str:
    """Return the text of the error that a call raises, which must be of this kind."""
    try:
        call()
    except kind as error:
        return str(error)
    raise SystemExit(f"no {kind.__name__} was raised")
