"""What the mock server says: seeded answers, ballots for the labels a prompt shows, decisions.

A text has the same worth to every reviewer but for a little noise, so that seasons against
the mock have a ranking to find. Nothing here depends on the order of arrival.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

Json = dict[str, Any]

WORDS = (  # noqa: SIM905 - a sentence is easier to read than a list of its words
    "the a model answer because first second clearly evidence holds when value check result "
    "simple careful exact known limit case proof number order follows shows means note always "
    "rarely test claim source reason step"
).split()
BLOCK = re.compile(r"^\[BEGIN (Response [A-Z]{1,2}) (\w+)\]\n(.*?)\n\[END \1 \2\]$", re.S | re.M)
CANDIDATE = re.compile(r'<candidate_response id="([A-Z])">\n(.*?)\n</candidate_response>', re.S)
CODE = re.compile(r'"ballot": "(\w+)"')
TYPED = re.compile(r"^(\d+)\. (True or false\?|Which one\?|Which level)", re.M)
MARKED = re.compile(r'"(\w+)": <mark>')


def draw(*parts: str) -> int:
    """A number of 64 bits that follows from the parts."""
    key = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")


def text_of(content: object) -> str:
    """Return the text of a message, which may come in parts."""
    if not isinstance(content, list):
        return str(content)
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def compose(seed: str, request: Json, n_words: int) -> tuple[str, str]:
    """The stage that a request belongs to, and the text that answers it.

    The page of a review or a verdict may be followed by a reply that could not be counted.
    """
    turns = [text_of(turn["content"]) for turn in request["messages"] if turn["role"] == "user"]
    prompt = turns[-2] if turns[-1].startswith("Your reply could not be counted") else turns[-1]
    model = request["model"].partition("?")[0]
    if prompt.startswith("You are one reviewer"):
        return "review", json.dumps(ballot(seed, model, prompt))
    if prompt.startswith("You are evaluating different responses"):
        return "review", other_ballot(seed, model, prompt)
    if prompt.startswith("You are one member of a panel that decides"):
        return "conclude", json.dumps(votes(seed, model, prompt))
    if not prompt.startswith("You chair a panel"):
        return "answer", prose(f"{seed}|{model}|{prompt}", n_words)
    return "conclude", conclusion(seed, model, prompt, n_words)


def prose(key: str, n_words: int) -> str:
    """Words without meaning, the same for the same key."""
    state = draw("prose", key)
    words = []
    for _ in range(n_words):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(WORDS[(state >> 33) % len(WORDS)])
    return " ".join(words).capitalize() + "."


def worth(seed: str, reviewer: str, text: str) -> float:
    """How good a text is to one reviewer, on the scale of marks."""
    common = draw("worth", seed, text) / 2**64
    own = draw("taste", seed, reviewer, text) / 2**64
    return 2 + 6 * common + 2 * own


def worth_by_label(seed: str, model: str, prompt: str) -> dict[str, float]:
    return {label: worth(seed, model, text) for label, _, text in BLOCK.findall(prompt)}


def ranked(worths: dict[str, float]) -> list[str]:
    return sorted(worths, key=lambda label: (-worths[label], label))


def other_ballot(seed: str, model: str, prompt: str) -> str:
    """A review as llm-council asks for one: talk, then a ranking and scores in a fence."""
    worths = {
        f"Response {one}": worth(seed, model, text) for one, text in CANDIDATE.findall(prompt)
    }
    scores = {label: round(value) for label, value in worths.items()}
    document = json.dumps({"ranking": ranked(worths), "scores": scores})
    return f"{prose(f'{seed}|{model}', 40)}\n\n```json\n{document}\n```"


def ballot(seed: str, model: str, prompt: str) -> Json:
    """A review of every label in the prompt, by the dimensions it asks for or holistic."""
    worths = worth_by_label(seed, model, prompt)
    asked = prompt[prompt.rfind("[END ") :]
    dimensions = list(dict.fromkeys(MARKED.findall(asked)))
    notes = {label: prose(f"{seed}|{model}|{value}", 12) for label, value in worths.items()}
    said: Json
    if dimensions:
        evaluations = {
            label: {
                "notes": notes[label],
                **{name: mark(value, seed, model, name) for name in dimensions},
            }
            for label, value in worths.items()
        }
        said = {"evaluations": evaluations}
    else:
        said = {"notes": notes, "scores": {label: round(v) for label, v in worths.items()}}
    said = {"abstained": False, "reason": None, **said, "ranking": ranked(worths)}
    return {**code_of(prompt), **said}


def votes(seed: str, model: str, prompt: str) -> Json:
    """A vote on every typed question of the prompt."""
    asked = prompt[prompt.rfind("[END ") :]
    cast: Json = {}
    for number, is_predicate in TYPED.findall(asked):
        drawn = draw("vote", seed, model, prompt, number)
        cast[number] = drawn % 2 == 0 if is_predicate == "True or false?" else 1 + drawn % 2
    return {**code_of(prompt), "votes": cast}


def code_of(prompt: str) -> Json:
    """The code of the form at the end of a page, under its name in the form."""
    codes = CODE.findall(prompt)
    return {"ballot": codes[-1]} if codes else {}


def mark(value: float, seed: str, model: str, dimension: str) -> int:
    off = draw("mark", seed, model, dimension, str(value)) % 3 - 1
    return min(10, max(1, round(value) + off))


def conclusion(seed: str, model: str, prompt: str, n_words: int) -> str:
    asked = prompt[prompt.rfind("[END ") :]
    if '"approved"' in asked:
        sure = 0.5 + draw("sure", seed, model, prompt) / 2**65
        reasons = [prose(f"{seed}|{model}|{prompt}", 10)]
        said = {"reasons": reasons, "approved": sure > 0.6, "confidence": sure}
        return json.dumps({**code_of(prompt), **said})
    if '"ranking"' in asked:
        order = ranked(worth_by_label(seed, model, prompt))
        said = {"reason": prose(f"{seed}|{prompt}", 10), "ranking": order}
        return json.dumps({**code_of(prompt), **said})
    return prose(f"{seed}|{model}|{prompt}", n_words)
