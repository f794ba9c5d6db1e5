"""Prompts for reviewers and the chair, and the JSON schemas of their replies.

Each prompt is one text file, versioned and hashed. A template is filled in once, and the inserted
text is never read as a template, so an answer may contain any character. Text written by others is
enclosed in a fence: a line before and a line after it (`council/fences.py`). Prompts contain no
names: an author becomes a label, and a reviewer a number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.resources import files
from string import Template
from typing import Any

from peerage.council.fences import CODE_LENGTH, MAX_TITLE, clear_of, derive_bytes, enclose
from peerage.errors import InputError, UsageError, how_many
from peerage.messages import step_title, steps_of
from peerage.types import Ballot, Dissent, Query, Review, Rubric, Score, Slot, TypedQuestion

FILES = {file.name.removesuffix(".txt"): file for file in files(__name__).iterdir()}
NAMES = tuple(sorted(name for name, file in FILES.items() if file.name.endswith(".txt")))
CUT_OFF = "It is not whole: it was cut off at its author's length limit. Judge it as it stands."
WORKED = (
    "It is the work of an assistant with tools, in steps: texts of the assistant, its calls of "
    "tools, and what the tools returned. Judge the assistant by its texts and its calls; it did "
    "not write the results."
)
ATTACHED = "{} came with the question or the conversation before it; see after this page."
TOOL_NAME = re.compile(r"[^\w .:/-]")  # characters that a fence line may not contain
HEADER = re.compile(r"version: (\d+)\n---\n")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template, and the SHA-256 of the file it came from."""

    name: str
    version: int
    text: str
    hash: str

    def fill(self, values: Mapping[str, str]) -> str:
        return Template(self.text).substitute(values)


@dataclass(frozen=True, slots=True)
class Page:
    """A filled-in prompt, the code that a reply must contain, and the code of its fences.

    The schema is the form of the reply, against which it is read; an empty one is not known.
    """

    text: str
    code: str = ""
    fence: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def form(self) -> str:
        """The end of the prompt, from the object that is to be filled in."""
        return self.text[self.text.rindex("{", 0, self.text.index(self.code)) :]


@dataclass(frozen=True, slots=True)
class Critique:
    """A review of an earlier round, with this ballot's labels and without its writer's name."""

    ranking: tuple[tuple[str, ...], ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    own: bool = False  # written by the reviewer who now reads it


# -- prompts as files -------------------------------------------------------------------------


def read_prompt(name: str, data: bytes) -> Prompt:
    """Return the prompt in a file's bytes; its hash covers the header too."""
    text = data.decode("utf-8").replace("\r\n", "\n")
    header = HEADER.match(text)
    if header is None:
        raise InputError(
            "a prompt must begin with a line `version: N` and a line `---`.", place=f"prompt {name}"
        )
    digest = hashlib.sha256(data).hexdigest()
    return Prompt(name, int(header[1]), text[header.end() :].strip(), digest)


@lru_cache(maxsize=64)
def prompt(name: str) -> Prompt:
    """Return the prompt of that name; each file is read once."""
    if name not in NAMES:
        raise UsageError(f"there is no prompt {name!r}.", hint=f"Known: {', '.join(NAMES)}.")
    return read_prompt(name, FILES[name].read_bytes())


# -- for a reviewer ---------------------------------------------------------------------------


def review_prompt(rubric: Rubric | None, brief: bool = False) -> Prompt:
    """Return the prompt for a review: by rubric or holistic, full or brief."""
    holistic = "review_brief" if brief else "review_holistic"
    return prompt(holistic if rubric is None else "review_rubric")


def render_review(
    ballot: Ballot,
    query: Query,
    rubric: Rubric | None,
    boundary: str,
    code: str,
    critiques: Sequence[Critique] = (),
    brief: bool = False,
    own: str | None = None,
) -> Page:
    """Return the filled-in prompt for one ballot.

    Answers appear in the ballot's order. Critiques make it a second-round prompt. If the reviewer
    has an answer of its own, the prompt asks which answers agree with it. The ceilings are not
    shown, because a reviewer who knew them might aim at them.
    """
    remarks = [_remark(critique) for critique in critiques]
    values = _case(query, ballot.slots, boundary, [*remarks, own or ""])
    values["second_round"] = _second_round(critiques, remarks, values["boundary"])
    if own is not None:
        block = enclose("your own answer", own, values["boundary"])
        commitment = prompt("commitment").fill({"own": block})
        values["second_round"] = f"\n{commitment}\n{values['second_round']}"

    def form(value: str) -> str:
        """Return a line for each label; an unfilled copy of the form is not a vote."""
        return ",\n".join(f'    "{heading(slot.label)}": {value}' for slot in ballot.slots)

    if rubric is None:
        agrees = f'\n  }},\n  "agrees": {{\n{form("<true, false or null>")}'
        values["notes_skeleton"] = form('"<why>"') + ("" if own is None else agrees)
        values["scores_skeleton"] = form("<score>")
    else:
        marks = "".join(f', "{dimension.name}": <mark>' for dimension in rubric.dimensions)
        agrees = "" if own is None else ', "agrees": <true, false or null>'
        values["skeleton"] = form(f'{{"notes": "<why>"{agrees}{marks}}}')
        values["dimensions"] = _dimensions(rubric)
    form_of = partial(review_schema, ballot, rubric, is_committed=own is not None)
    return _seal_page(review_prompt(rubric, brief), values, code, form_of)


def own_answer_in(page: str) -> str | None:
    """Return the reviewer's own answer from a prompt, found by the code of its fences."""
    fence = re.search(r"\[BEGIN … ([0-9a-f]+)\]", page)
    if fence is None:
        return None
    title = f"your own answer {fence[1]}"
    _, begun, rest = page.partition(f"\n[BEGIN {title}]\n")
    own, ended, _ = rest.partition(f"\n[END {title}]")
    return own if begun and ended else None


def render_commitment(query: Query) -> Page:
    """Return the prompt that asks a reviewer for its own short answer before it sees others."""
    return Page(prompt("commit").fill({"question": query.text}))


def render_material(
    query: Query,
    slots: Sequence[Slot],
    boundary: str,
    critiques: Sequence[Critique] = (),
    scores: Sequence[Score] = (),
) -> Page:
    """Return the input for a decision model: a question and its answers, without instructions.

    Remarks of an earlier round, or the panel's ranking, follow if they are given.
    """
    remarks = [_remark(critique) for critique in critiques]
    values = _case(query, slots, boundary, remarks)
    standing = f"\nHow the panel ranked them, best first:\n\n{_standing(slots, scores)}\n"
    rest = standing if scores else _second_round(critiques, remarks, values["boundary"])
    return Page(prompt("material").fill({**values, "rest": rest}).strip(), fence=values["boundary"])


def render_input(
    query: Query, boundary: str, questions: Sequence[TypedQuestion] = (), code: str = ""
) -> Page:
    """Return the input of typed questions; with a code, also the questions and a form for votes."""
    texts = {"instructions": query.system} if query.system else {}
    for i, turn in enumerate(query.earlier, start=1):
        texts[f"turn {i}, {turn.role}"] = turn.content
    texts["input"] = query.text
    boundary = clear_of(boundary, texts.values())
    material = "\n\n".join(enclose(title, text, boundary) for title, text in texts.items())
    values = {"boundary": boundary, "material": material}
    if not code:
        return Page(prompt("input").fill(values), fence=boundary)
    values["questions"] = "\n\n".join(_describe_typed(i, one) for i, one in enumerate(questions, 1))
    values["skeleton"] = ",\n".join(f'    "{i}": <vote>' for i in range(1, len(questions) + 1))
    return _seal_page(prompt("decide"), values, code, partial(votes_schema, questions))


def _describe_typed(number: int, question: TypedQuestion) -> str:
    """Return a typed question in words, with its options numbered from 1."""
    if question.kind == "predicate":
        return f"{number}. True or false? {question.instructions}"
    options = [
        f"   {i}: {one.value}" + (f" ({one.description})" if one.description else "")
        for i, one in enumerate(question.options, start=1)
    ]
    asks = "Which one?" if question.kind == "choice" else "Which level, from the lowest up?"
    return "\n".join([f"{number}. {asks} {question.instructions}", *options])


def render_again(page: Page, fault: str, detail: str = "") -> str:
    """Return the message for a reply that could not be used: the reason, and the empty form.

    A prompt without a form asks for JSON; the message then contains `detail`.
    """
    if not page.code:
        return prompt("again_structured").fill({"detail": detail})
    faults = dict(line.split(": ", 1) for line in prompt("faults").text.splitlines())
    return prompt("again").fill({"fault": faults[fault], "form": page.form})


def critiques_for(
    ballot: Ballot, earlier: Iterable[tuple[Ballot, Review]], boundary: str
) -> tuple[Critique, ...]:
    """Return remarks of an earlier round, with this ballot's labels and in a new order.

    The order depends on the boundary and not on the seats, so that no reviewer can be recognised by
    it. Abstentions, and labels that this ballot does not have, are left out.
    """

    def place(pair: tuple[Ballot, Review]) -> str:
        key = f"{boundary}|{pair[1].reviewer}"
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

    critiques = (_critique(ballot, *pair) for pair in sorted(earlier, key=place))
    return tuple(critique for critique in critiques if critique.ranking or critique.notes)


def relabel(text: str, ballot: Ballot, slots: Sequence[Slot]) -> str:
    """Return a remark with the labels of one ballot replaced by the labels of other slots.

    Only labels written in full are changed ("Response B", "Responses A and C"); a bare letter may
    be any letter. An answer that is not among the slots is "another response".
    """
    new_by_old = _label_by_label(ballot, slots)

    def change(old: str) -> str | None:
        """Return the new label; an unknown label stays, unless another answer has it now."""
        is_in_use = any(slot.label == old for slot in slots)
        return new_by_old.get(old, None if is_in_use else old)

    def one(match: re.Match[str]) -> str:
        new = change(match["label"])
        return f"another {match['word'].lower()}" if new is None else f"{match['word']} {new}"

    def many(match: re.Match[str]) -> str:
        plural = f"{match['word'].removesuffix('s')}s"
        if any(change(old) is None for old in LETTERS.findall(match["labels"])):
            return f"several {plural.lower()}"
        return f"{plural} " + LETTERS.sub(lambda m: change(m[0]) or "", match["labels"])

    return SINGLE.sub(one, PLURAL.sub(many, text))


SINGLE = re.compile(r"\b(?P<word>(?i:response))\s+(?P<label>[A-Z]{1,2})\b")
PLURAL = re.compile(
    r"\b(?P<word>(?i:responses|response(?=\s+[A-Z]{1,2}(?: and | or | & |/)(?!I\b)[A-Z]{1,2}\b)))"
    r"\s+"
    r"(?P<labels>[A-Z]{1,2}\b(?:(?:, (?:and |or )?| and | or | & |/)[A-Z]{1,2}\b)*)"
)
LETTERS = re.compile(r"\b[A-Z]{1,2}\b")


# -- for the chair ----------------------------------------------------------------------------


def render_chair(
    kind: str,
    query: Query,
    slots: Sequence[Slot],
    scores: Sequence[Score],
    boundary: str,
    dissent: Sequence[Dissent] = (),
    code: str = "",
) -> Page:
    """Return the chair's prompt for a verdict of this kind; it contains labels, not names.

    A synthesis combines the best of all answers, a debate reports where they agree, a binary
    verdict approves or rejects, and a tie breaker chooses among the tied answers, which are the
    only slots. Quotes of dissent must already use the labels of these slots (`relabel`). Only
    prompts that ask for a vote have a code: a decision and a tie break.
    """
    quotes = [item.quote for item in dissent]
    before = "conversation" if code else "conversation_chair"  # the user does not read votes
    values = _case(query, slots, boundary, quotes, before)
    values["standing"] = _standing(slots, scores)
    values["dissent"] = ""
    if quotes:
        blocks = (enclose(f"remark {i}", q, values["boundary"]) for i, q in enumerate(quotes, 1))
        filled = prompt("dissent").fill({"remarks": "\n\n".join(blocks)})
        values["dissent"] = f"\n{filled}\n"
    if code:
        form_of = binary_schema if kind == "binary" else partial(tie_breaker_schema, slots)
        return _seal_page(prompt(kind), values, code, form_of)
    return Page(prompt(kind).fill(values), fence=values["boundary"])


def ask_for_json(page: Page, schema: str, function: str = "") -> Page:
    """Return a prompt that asks for its reply as JSON, possibly as the arguments of a function."""
    purpose = f"It is the arguments of the function {function}." if function else ""
    values = {"page": page.text, "schema": schema, "purpose": purpose}
    return replace(page, text=prompt("structured").fill(values))


# -- parts ------------------------------------------------------------------------------------


def _case(
    query: Query,
    slots: Sequence[Slot],
    boundary: str,
    remarks: Iterable[str],
    introduction: str = "conversation",
) -> dict[str, str]:
    """Return the values that every prompt shares, with a boundary that no text contains.

    `introduction` names the prompt that presents instructions and earlier turns.
    """
    if not slots:
        raise InputError("there is no answer to show.", hint="A ballot needs candidates.")
    before = {"instructions": query.system} if query.system else {}
    for i, turn in enumerate(query.earlier, start=1):
        before[f"turn {i}, {turn.role}"] = turn.content
    code = clear_of(boundary, (query.text, *before.values(), *map(text_of, slots), *remarks))
    question = enclose("question", query.text, code)
    if images := query.all_images:
        came = ATTACHED.format(how_many(len(images), "image"))
        question += f"\n[NOTE question {code}] {came}"
    if before:
        blocks = "\n\n".join(enclose(title, text, code) for title, text in before.items())
        question = prompt(introduction).fill({"blocks": blocks}) + "\n\n" + question
    return {
        "boundary": code,
        "n_responses": str(len(slots)),
        "question": question,
        "responses": "\n\n".join(fence(slot, code) for slot in slots),
        "labels": ", ".join(f'"{heading(slot.label)}"' for slot in slots),
    }


def _standing(slots: Sequence[Slot], scores: Sequence[Score]) -> str:
    """Return the panel's ranking, a line for each answer, with labels instead of names."""
    label_by_author = {slot.author: slot.label for slot in slots}
    lines = [
        f"{_rank(score)}: {heading(label_by_author[score.model])}, {_support(score)}"
        for score in scores
        if score.model in label_by_author
    ]
    scored = {score.model for score in scores}
    lines += [f"Not ranked: {heading(s.label)}" for s in slots if s.author not in scored]
    return "\n".join(lines)


def _rank(score: Score) -> str:
    return "Not ranked" if score.rank is None else f"Rank {score.rank}"


def _support(score: Score) -> str:
    if not score.passed:
        return "failed the safety gate"
    if not score.votes:
        return "no votes"
    votes = f"{score.votes} vote{'s' if score.votes != 1 else ''}"
    return (
        f"preferred to {100 * score.share:.0f}% of its rivals on average "
        f"({votes}, {score.wins} for first place; confidence {score.confidence})"
    )


def _dimensions(rubric: Rubric) -> str:
    blocks = []
    for dimension in rubric.dimensions:
        weight = float(100 * rubric.weights[dimension.name])
        anchors = [f"  {band}: {meaning}" for band, meaning in dimension.anchors]
        title = f"{dimension.name} ({weight:.4g}%): {dimension.question}"
        blocks.append("\n".join([title, *anchors]))
    return "\n\n".join(blocks)


def _label_by_label(ballot: Ballot, slots: Sequence[Slot]) -> dict[str, str | None]:
    """Return, for each label of a ballot, the label of the same author in the slots, or None."""
    label_by_author = {slot.author: slot.label for slot in slots}
    return {slot.label: label_by_author.get(slot.author) for slot in ballot.slots}


def _critique(ballot: Ballot, earlier: Ballot, review: Review) -> Critique:
    if review.abstained:
        return Critique()
    new_by_old = _label_by_label(earlier, ballot.slots)
    tiers = (
        tuple(new for old in tier if (new := new_by_old.get(old)) is not None)
        for tier in review.ranking
    )
    notes = {
        new: relabel(note, earlier, ballot.slots)
        for old, note in review.notes.items()
        if note and (new := new_by_old.get(old)) is not None
    }
    ranking = tuple(tier for tier in tiers if tier)
    return Critique(ranking, dict(sorted(notes.items())), review.reviewer == ballot.reviewer)


def _remark(critique: Critique) -> str:
    tiers = (" = ".join(map(heading, tier)) for tier in critique.ranking)
    ranking = [f"Ranking, best first: {' > '.join(tiers)}"] if critique.ranking else []
    notes = (f"{heading(label)}: {note}" for label, note in critique.notes.items())
    return "\n".join((*ranking, *notes))


def _second_round(critiques: Sequence[Critique], remarks: Sequence[str], boundary: str) -> str:
    if not critiques:
        return ""
    blocks = []
    n_others = 0
    for critique, remark in zip(critiques, remarks, strict=True):
        n_others += not critique.own
        title = "your own first review" if critique.own else f"reviewer {n_others}"
        blocks.append(enclose(title, remark, boundary))
    filled = prompt("second_round").fill({"critiques": "\n\n".join(blocks)})
    return f"\n{filled}\n"


# -- answers in fences, and codes -----------------------------------------------------------------


def heading(label: str) -> str:
    """Return the name of an answer in prompts: "Response A"."""
    return f"Response {label}"


def _seal_page(
    prompt: Prompt, values: Mapping[str, str], code: str, form_of: Callable[[str], Schema]
) -> Page:
    """Return the prompt and its code, which is lengthened until it occurs only in the form."""
    text = prompt.fill({**values, "code": code})
    while text.count(code) > 1:
        code += derive_bytes("longer", code).hex()[:CODE_LENGTH]
        text = prompt.fill({**values, "code": code})
    return Page(text, code, values["boundary"], form_of(code))


def text_of(slot: Slot) -> str:
    """Return the text of an answer; raise an error if it is not known."""
    if slot.text is None:
        raise InputError(
            f"the text of {heading(slot.label)} is not known, so it cannot be reviewed.",
            hint="Imported ballots can be scored, but only answers with a text can be shown.",
        )
    return slot.text


def fence(slot: Slot, boundary: str) -> str:
    """Return an answer under its label, inside a fence that its text cannot imitate.

    Each step of an answer with messages has a fence of its own, so that a tool's result cannot pass
    for a text of the assistant.
    """
    title, text = heading(slot.label), text_of(slot)
    notes = [WORKED] * bool(slot.messages) + [CUT_OFF] * slot.truncated
    lines = [enclose(title, text, boundary)]
    if slot.messages:
        steps = enumerate(steps_of(slot.messages), start=1)
        blocks = (
            enclose(f"{title}, step {n}, {_step_name(kind, tool)}", step, boundary)
            for n, (kind, tool, step) in steps
        )
        lines = [f"[BEGIN {title} {boundary}]", *blocks, f"[END {title} {boundary}]"]
    return "\n".join([*lines, *(f"[NOTE {title} {boundary}] {note}" for note in notes)])


def _step_name(kind: str, tool: str) -> str:
    """Return the title of a step for a fence line."""
    return TOOL_NAME.sub("_", step_title(kind, tool))[: MAX_TITLE // 2]


# -- schemas of the replies ---------------------------------------------------------------------

# The schemas use only what every vendor's strict mode accepts: an object at the root, all
# properties required, no other properties, null for a missing value, and no bounds on numbers or
# lengths.
Schema = dict[str, Any]

LABEL = {"$ref": "#/$defs/label"}
MARK = {"$ref": "#/$defs/mark"}
TEXT = {"type": "string"}
# Labels from best to worst; those in an inner list are tied.
RANKING = {"type": "array", "items": {"anyOf": [LABEL, {"type": "array", "items": LABEL}]}}


def review_schema(
    ballot: Ballot, rubric: Rubric | None, code: str, *, is_committed: bool = False
) -> Schema:
    """Return the schema of a review of this ballot, by rubric or holistic.

    A committed reviewer also says whether each answer agrees with its own, before the marks.

    Reasons come before marks and marks before the ranking, because a model writes in this order. A
    reviewer that abstains may leave the marks null and the ranking empty.
    """
    names = [heading(slot.label) for slot in ballot.slots]
    defs: dict[str, Schema] = {
        "label": {"type": "string", "enum": names},
        "mark": {"type": "integer", "enum": list(range(1, 11))},
    }
    agrees: dict[str, Schema] = {"agrees": _or_null({"type": "boolean"})} if is_committed else {}
    by_label: dict[str, Schema] = {"notes": TEXT, **agrees, "scores": MARK}
    if rubric is not None:
        marks = {dimension.name: MARK for dimension in rubric.dimensions}
        defs["evaluation"] = _object({"notes": TEXT, **agrees, **marks})
        by_label = {"evaluations": {"$ref": "#/$defs/evaluation"}}
    properties = {
        **_code_property(code),
        "abstained": {"type": "boolean"},
        "reason": _or_null(TEXT),
        **{key: _or_null(_object(dict.fromkeys(names, by_label[key]))) for key in by_label},
        "ranking": RANKING,
    }
    return {**_object(properties), "$defs": defs}


def tie_breaker_schema(slots: Sequence[Slot], code: str) -> Schema:
    """Return the schema of a chair's ranking of the tied answers, without ties."""
    ranking = {"type": "array", "items": LABEL}
    names = [heading(slot.label) for slot in slots]
    return {
        **_object({**_code_property(code), "reason": TEXT, "ranking": ranking}),
        "$defs": {"label": {"type": "string", "enum": names}},
    }


def votes_schema(questions: Sequence[TypedQuestion], code: str) -> Schema:
    """Return the schema of votes on typed questions: true, false, an option's number, or null."""
    votes: dict[str, Schema] = {}
    for i, one in enumerate(questions, start=1):
        numbers = {"type": "integer", "enum": list(range(1, len(one.options) + 1))}
        votes[str(i)] = _or_null({"type": "boolean"} if one.kind == "predicate" else numbers)
    return _object({**_code_property(code), "votes": _object(votes)})


def binary_schema(code: str) -> Schema:
    """Return the schema of a decision: reasons, approved or not, and a confidence or null."""
    return _object(
        {
            **_code_property(code),
            "reasons": {"type": "array", "items": TEXT},
            "approved": {"type": "boolean"},
            "confidence": _or_null({"type": "number"}),
        }
    )


def _code_property(code: str) -> dict[str, Schema]:
    return {"ballot": {"type": "string", "enum": [code]}}


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}
