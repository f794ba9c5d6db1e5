"""The reader of reviewers' replies: any text gives a review or a decision, or an abstention.

The verdict is the last object on its own that has a ranking, evaluations or scores naming a
label of the ballot, or that abstains; of a decision, the last that says whether it approves.
Quoted text is nobody's verdict, and if the last verdict cannot be read, nothing before it
stands in for it. Only where a ballot has none at all are tables and lists in prose tried.
In doubt a reply is an abstention, and a question is not approved.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from peerage.council.jsonish import (
    Object,
    RepeatedKeys,
    cached_if_short,
    fold_key,
    folded,
    key_value,
)
from peerage.council.rankings import (
    LABEL_KEYS,
    LISTS,
    MARK_KEYS,
    NUMBERS,
    RANK_KEYS,
    REFUSAL,
    Labels,
    Ranking,
    Tiers,
    canonical_label,
    label_of,
    one_line,
    read_mark,
    says_worst_first,
    shown,
    stated_in_prose,
)
from peerage.council.replies import (
    FENCE_AND_SPACE,
    MAX_REPLY_CHARACTERS,
    OWN_WORDS,
    ReplyObject,
    ReplyObjects,
    objects_of,
)
from peerage.text import valid_text
from peerage.types import Ballot, Review

__all__ = ["Decision", "canonical_label", "parse", "parse_decision", "review_of"]

MAX_FLAGS = 50
MAX_REASON = 500
MAX_DIMENSIONS = 2_000  # different names in one review; the log keeps the rubric's and a few more
MAX_DIMENSION_CHARACTERS = 64

VOTE_KEYS = frozenset({"ranking", "evaluations", "scores"})
# An object that holds nothing but the verdict, as answers to a tool's call do.
ENVELOPES = frozenset(
    {"verdict", "review", "result", "output", "answer", "response", "final", "final_answer"}
    | {"ballot", "data", "json", "judgment", "judgement", "arguments", "parameters"}
)
OTHER_NAMES = {
    "final_ranking": "ranking",
    "rankings": "ranking",
    "evaluation": "evaluations",
    "ratings": "scores",
}
HOW_BY_STATE = {"whole": (), "broken": ("broken_tail",), "cut": ("truncated",)}


# -- ballots -------------------------------------------------------------------------------------


def parse(text: object, ballot: Ballot) -> Review:
    """What a reviewer's reply says about a ballot; never an exception."""
    if not isinstance(text, str):
        return abstain(ballot, "empty" if text is None else "not_text")
    body = valid_text(text.strip())
    if not body:
        return abstain(ballot, "empty", text)
    if len(body) > MAX_REPLY_CHARACTERS:  # whatever is read of it, the last verdict may be cut off
        flag = f"reply_cut:{len(body) - MAX_REPLY_CHARACTERS} characters"
        return abstain(ballot, "too_long", text, (flag,))
    inner = _loaded(body, '"', '"')  # a reply that was encoded once too often
    is_encoded = isinstance(inner, str) and inner.lstrip().startswith("{")
    stated = _stated(valid_text(inner) if is_encoded else body, ballot)
    if isinstance(stated, str):
        return abstain(ballot, stated, text)
    reading, how = stated
    return reading.review(text, ("json_string", *how) if is_encoded else how)


def review_of(data: object, ballot: Ballot, *, raw: str = "") -> Review:
    """The review in a verdict that is JSON already, as a ballots file holds it.

    A list is taken for the ranking alone, and so is a line that is nothing but a ranking.
    """
    labels = Labels(ballot)
    if isinstance(data, str):
        tiers = Ranking(labels).from_text(data[:MAX_REPLY_CHARACTERS])
        if not tiers or any(labels.exactly(name) is None for tier in tiers for name in tier):
            return replace(parse(data, ballot), raw=raw or data)
        data = {"ranking": data}
    if isinstance(data, LISTS):
        data = {"ranking": data}
    if not isinstance(data, Mapping):
        return abstain(ballot, "empty" if data is None else "not_an_object", raw)
    if not data:
        return abstain(ballot, "empty", raw)
    return _Reading(folded(data), ballot, labels).review(raw)


def abstain(ballot: Ballot, reason: str, raw: str = "", flags: tuple[str, ...] = ()) -> Review:
    """A review without a vote."""
    return Review(ballot.reviewer, abstained=reason, flags=flags, raw=raw, round=ballot.round)


def _stated(text: str, ballot: Ballot) -> tuple[_Reading, tuple[str, ...]] | str:
    """The verdict of a reply with how it was come by, or why there is none."""
    labels = Labels(ballot)

    def read(value: Object) -> _Reading | None:
        reading = _Reading(value, ballot, labels)
        return reading if reading.abstained or reading.votes else None

    reply = objects_of(text, VOTE_KEYS | {"abstained", "notes"}, read)
    last = reply.last_word()
    if isinstance(last, ReplyObject):
        if says_worst_first(last.context):
            return "ambiguous"
        if last.verdict is None:
            return "truncated" if last.state == "cut" else "unparsed"
        return last.verdict, last.repairs + HOW_BY_STATE[last.state]
    if last == "quoted" and _ends_in_backticks(reply):
        return reply.verdicts[0].verdict, (*reply.verdicts[0].repairs, "quoted")
    if last != "none":
        return last
    for data, how in _recoveries(reply):
        reading = read(data)
        if reading:
            return reading, how
    prose = reply.prose()
    verdict = stated_in_prose(prose, labels)
    if isinstance(verdict, tuple):
        return _Reading(verdict[0], ballot, labels), verdict[1]
    return verdict or _reason(prose, reply)


def _ends_in_backticks(reply: ReplyObjects) -> bool:
    """Whether the only verdict is in backticks, ends the reply and is nobody else's."""
    first, tail = reply.verdicts[0], reply.text[reply.verdicts[0].end :]
    lead = first.context.partition("\n")[0].strip("` ")
    is_led = not lead or OWN_WORDS.fullmatch(lead) is not None
    is_only = len(reply.verdicts) == 1 and first.state == "whole"
    return is_only and is_led and tail[:1] == "`" and not tail.strip(FENCE_AND_SPACE)


def _recoveries(reply: ReplyObjects) -> Iterator[tuple[Object, tuple[str, ...]]]:
    """What may be meant by a bare list, by other names or by an envelope, if it ends the reply.

    None of these is a verdict by the letter, so none is looked for inside a longer text:
    the object must be the reply's only one and its last word.
    """
    if not reply.objects:
        body = reply.text.strip(FENCE_AND_SPACE).removeprefix("json").lstrip()
        yield {"ranking": _loaded(body, "[", "]")}, ("bare_list",)
        return
    only = reply.objects[0]
    if len(reply.objects) > 1 or only.state != "whole" or only.standing != "own":
        return
    if reply.text[only.end :].strip(FENCE_AND_SPACE) or says_worst_first(only.context):
        return
    renamed = {OTHER_NAMES.get(key, key): value for key, value in only.value.items()}
    yield renamed, (*only.repairs, "other_names")
    inside = [only.value[key] for key in only.value.keys() & ENVELOPES]
    inside = [value for value in inside if isinstance(value, dict)]
    if len(inside) == 1:
        yield folded(inside[0]), (*only.repairs, "envelope")


def _loaded(body: str, start: str, end: str) -> Any:
    """The JSON value that a text is, if it begins and ends so; else None."""
    try:
        return json.loads(body) if body.startswith(start) and body.endswith(end) else None
    except (ValueError, RecursionError):
        return None


def _reason(prose: str, reply: ReplyObjects) -> str:
    """Why a reply is an abstention; a refusal is only looked for where nothing was readable."""
    own = [item for item in reply.objects if item.standing == "own"]
    if any(not VOTE_KEYS.isdisjoint(item.value) for item in own):
        return "no_labels"
    if not own and not prose.strip():
        return "only_thoughts"
    return "refusal" if REFUSAL.search(prose) else "unparsed"


# -- decisions -----------------------------------------------------------------------------------

DECIDED = {
    **dict.fromkeys(("true", "yes", "approved", "approve"), True),
    **dict.fromkeys(("false", "no", "rejected", "reject", "not approved", "disapproved"), False),
}
DECISION_KEYS = frozenset(
    {"approved", "approve", "approval", "is_approved", "accepted", "accept", "rejected", "reject"}
    | {"decision", "verdict"}
)
NEGATED_KEYS = frozenset({"rejected", "reject"})


LETTER = re.compile(r"[^\W\d_]")
# A word that says the reviewer itself is about to decide; an approval that is introduced has one.
OWN_CUE = re.compile(
    r"\b(?:I|we|my|our|here|below|so|sure|yes|thus|therefore|hence|verdict|decision|vote|judge?ment"
    r"|ranking|evaluation|review|assess\w{0,6}|analysis|json|results?|output|conclusion|final|overall"
    r"|answer|response|rubric|based|given|having|ich|mein|urteil|je|mon|yo|mi|veredicto|мой|вердикт"
    r"|revised|correct(?:ed|ion)|accuracy|nothing|but|reflection|instructions)\b|我|評|评|判|結果|结果",
    re.IGNORECASE,
)
CLOSING_TAG = re.compile(r"</\w{1,40}>")  # of one's own: within any other it would be quoted


@dataclass(frozen=True, slots=True)
class Decision:
    """One vote on a yes-or-no question; None is an abstention, and the flag says why."""

    approved: bool | None
    reasons: tuple[str, ...] = ()
    flag: str = ""


def parse_decision(text: str) -> Decision:
    """The decision of a reply: its last verdict, or an abstention where that cannot be read.

    Approval asks for more than rejection: a whole object at the end of its line, and no
    other verdict that says otherwise: behind it not even in quotation marks, and before it
    only where words of one's own lead from the one to the other.
    """
    body = valid_text(text.strip())
    if len(body) > MAX_REPLY_CHARACTERS:
        return Decision(None, flag="reply_cut")
    reply = objects_of(
        body,
        DECISION_KEYS | {"reasons", "reason", "confidence", "abstained"},
        lambda value: value if DECISION_KEYS & value.keys() or abstention(value) else None,
    )
    last = reply.last_word()
    if isinstance(last, str):
        flag = {"none": "no_decision", "unparsed": "unreadable_decision"}.get(last, last)
        return Decision(None, flag=flag)
    approved = _approval(last.value)
    if approved is None or last.state != "whole":
        return Decision(None, flag="truncated" if last.state == "cut" else "unreadable_decision")
    if approved and not _is_plain(last, body):
        return Decision(None, flag="doubtful_approval")
    others = [f for f in reply.verdicts if _approval(f.value) is not approved]
    changed_mind = OWN_CUE.search(last.context.partition("\n")[0])  # "on reflection:"
    if any(f.start > last.start for f in others) or (
        approved and not changed_mind and any(f.standing != "quoted" for f in others)
    ):
        return Decision(None if approved else False, flag="contradicted")
    reasons = last.value.get("reasons")
    reasons = reasons if isinstance(reasons, list) else [reasons]
    texts = tuple(valid_text(reason) for reason in reasons if isinstance(reason, str) and reason)
    return Decision(approved, texts, "+".join(last.repairs))


def _approval(value: Object) -> bool | None:
    """Whether an object approves; None where it does not say, or says two things."""
    repeated = value.repeated if isinstance(value, RepeatedKeys) else ()
    if abstention(value) or not DECISION_KEYS.isdisjoint(map(fold_key, repeated)):
        return None
    decided: set[bool | None] = set()
    for key in DECISION_KEYS & value.keys():
        word = value[key]
        word = DECIDED.get(word.strip().casefold()) if isinstance(word, str) else word
        is_known = isinstance(word, bool)
        decided.add(word is not (key in NEGATED_KEYS) if is_known else None)
    return decided.pop() if "approved" in value and len(decided) == 1 else None


def _is_plain(approval: ReplyObject, text: str) -> bool:
    """Whether an approval was read without guessing at quotes, is introduced as one's own if it
    is introduced, and ends its line.
    """
    rest = text[approval.end :].partition("\n")[0].strip(FENCE_AND_SPACE + "*_.])")
    before = text[: approval.start].rpartition("\n")[2]
    lead = approval.context.partition("\n")[0]
    return (
        "unescaped_quotes" not in approval.repairs
        and (OWN_CUE.search(lead) is not None or not LETTER.search(lead))
        and (not rest or CLOSING_TAG.fullmatch(rest) is not None)
        and '"' not in before
    )


# -- from a verdict to a review --------------------------------------------------------------------

GROUP_KEYS = frozenset({"scores", "marks", "ratings", "dimensions", "criteria", "evaluation"})
CLAIM_KEYS = frozenset(
    {"overall", "total", "score", "overall_score", "total_score", "final_score"}
    | {"weighted_score", "weighted_total", "weighted_average", "average", "mean"}
)
ROLES = (
    ("claim", CLAIM_KEYS),
    ("group", GROUP_KEYS),
    ("rank", frozenset(RANK_KEYS)),
    ("label", frozenset(LABEL_KEYS)),
)
REMARK_KEYS = frozenset({"note", "notes", "comment", "comments", "reason", "reasons"})
NOTE_KEY = re.compile(
    r"notes?|comments?|reason\w{0,20}|rationale\w{0,20}|justification\w{0,20}|explanation\w{0,20}"
    r"|critiques?|feedback|summary|analysis|assessment|remarks?|strengths?|weakness(?:es)?|pros"
    r"|cons|why|verdict"
)
REASON_KEYS = ("reason", "reasons", "why", "explanation", "rationale", "note", "notes")
YES = frozenset({"true", "yes", "1", "abstained", "abstain"})


def abstention(data: Object) -> str:
    """The reason of a reviewer who abstains, or nothing where it does not."""
    value = data.get("abstained", data.get("abstain", data.get("abstention")))
    reason = next((data[key] for key in REASON_KEYS if key in data), None)
    if isinstance(value, str):
        word = value.strip().casefold()
        if " " in word and word != "not abstained":  # a sentence is the reason
            reason = value
        elif word not in YES:
            return ""
    elif not (value is True or (isinstance(value, NUMBERS) and value == 1)):
        return ""
    line = valid_text(one_line(reason, MAX_REASON)) if isinstance(reason, str) else ""
    return line or "abstained"


class _Reading:
    """What an object says about a ballot."""

    def __init__(self, data: Object, ballot: Ballot, labels: Labels) -> None:
        self.ballot = ballot
        self.labels = labels
        self.abstained = abstention(data)
        self.unclear = ""
        self.ranks: dict[str, Any] = {}  # said beside the marks, not as a ranking
        self.scores: dict[str, float] = {}
        self.marks: dict[str, dict[str, float]] = {}
        self.claimed: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.flags: dict[str, None] = {}
        self.dimensions: set[str] = set()
        self.names_a_label = False
        self._flag_repeats(data)
        for name in ("evaluations", "scores"):
            self._evaluations(name, data.get(name))
        # Whether a ranking, evaluations or scores mention the ballot at all. If what they say
        # cannot be used, no earlier verdict stands in for it: that may be a quotation.
        self.votes = self.names_a_label
        for name in ("notes", "comments", "critiques"):
            notes = data.get(name)
            for label, note in self._labelled(notes.items() if isinstance(notes, dict) else ()):
                self._note(label, note)
        self.ranking = self._ranking(data)

    def review(self, raw: str, how: Iterable[str] = ()) -> Review:
        """The review as it was read; without a usable word on any label, an abstention.

        So is one that says it abstains: that is the reviewer's word even beside a vote.
        """
        ballot, recovered = self.ballot, "+".join(dict.fromkeys(how))
        flags = [f"recovered:{recovered}", *self.flags] if recovered else [*self.flags]
        if len(flags) > MAX_FLAGS:
            flags[MAX_FLAGS - 1 :] = [f"…and {len(flags) - MAX_FLAGS + 1} more"]
        if self.abstained:
            beside = ("abstained_beside_a_vote",) if self.votes else ()
            return abstain(ballot, self.abstained, raw, beside)
        ranked = any(name in ballot.author_by_label for tier in self.ranking for name in tier)
        if self.unclear == "lookalike_label" or not (self.scores or self.marks or ranked):
            reason = "no_marks" if self.names_a_label else "no_labels"
            reason = "ambiguous" if self.unclear else reason
            return abstain(ballot, reason, raw, tuple(flags[bool(recovered) :]))
        return Review(
            ballot.reviewer,
            tuple(tuple(map(valid_text, tier)) for tier in self.ranking),
            self.scores,
            self.marks,
            self.claimed,
            {label: valid_text(note) for label, note in self.notes.items()},
            recovered=recovered,
            flags=tuple(flags),
            raw=raw,
            round=ballot.round,
        )

    def _flag(self, *flags: str) -> None:
        self.flags.update(dict.fromkeys(map(valid_text, flags)))

    def _flag_repeats(self, data: object) -> None:
        if isinstance(data, RepeatedKeys):
            self._flag(*(f"repeated_key:{shown(key)}" for key in data.repeated))

    def _ranking(self, data: Object) -> Tiers:
        ranking = Ranking(self.labels)
        tiers = ranking.tiers(data.get("ranking") or self.ranks)
        named = any(self.labels.find(label) for tier in tiers for label in tier)
        self.votes = self.votes or named or bool(ranking.unclear)
        self._flag(*ranking.dropped)
        self.unclear = self.unclear or ranking.unclear
        words = [*data, *(value for value in data.values() if isinstance(value, str))]
        if tiers and says_worst_first("\n".join(word[:MAX_REASON] for word in words)):
            tiers, self.unclear = [], "worst_first"
        if self.unclear:
            self._flag(f"ranking_unclear:{self.unclear}")
        n_by_label = Counter(label for tier in tiers for label in tier)
        for label, n in n_by_label.items():  # the count drops these
            if label not in self.ballot.author_by_label:
                self._flag(f"unknown_label:{shown(label)}")
            elif n > 1:
                self._flag(f"repeated_label:{label}")
        return tiers

    def _labelled(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
        """Entries under the ballot's labels; unknown ones and repeats are flagged and left out."""
        labels: set[str] = set()
        for phrase, value in entries:
            label = self.labels.find(phrase)
            if label is None:
                if self.labels.is_lookalike(phrase):
                    self.unclear = "lookalike_label"
                name = canonical_label(phrase) if isinstance(phrase, str) else phrase
                self._flag(f"unknown_label:{shown(name)}")
            elif label in labels:
                self._flag(f"repeated_label:{label}")
            else:
                self.names_a_label = True
                labels.add(label)
                yield label, value

    def _evaluations(self, name: str, value: Any) -> None:
        """What is said of each answer: an object's items, or objects in a list."""
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            entries = value.items()
        elif isinstance(value, LISTS):
            items = (item for item in value if isinstance(item, dict))
            entries = ((label_of(item, self.labels), item) for item in items)
        elif value is not None:
            self._flag(f"{name}_dropped:{shown(value)}")
        self._flag_repeats(value)
        for label, word in self._labelled(entries):
            if isinstance(word, dict):
                self._evaluation(label, word)
            elif (
                name == "evaluations"
                and isinstance(word, str)
                and " " in word.strip()
                and read_mark(word) is None
            ):
                self._note(label, word)
            else:
                self._score(label, word)

    def _score(self, label: str, value: Any) -> None:
        score = read_mark(value)
        if score is None:
            self._flag(f"score_dropped:{label}={shown(value)}")
        else:
            self.scores[label] = score

    def _evaluation(self, label: str, data: Mapping[Any, Any]) -> None:
        """The marks, claim and notes of one answer; an overall alone is a holistic score."""
        self._flag_repeats(data)
        marks: dict[str, float] = {}
        claim: Any = None
        n_dimensions = 0
        groups = [data]
        for group in groups:
            for key, value in group.items():
                name, role = _role(key) if isinstance(key, str) else ("", "dimension")
                if role == "claim":
                    claim = _inner_mark(value)
                elif role == "rank":
                    self.ranks.setdefault(label, value)
                elif role == "note" and _is_note(name, value):
                    self._note(label, value)
                elif role == "group" and isinstance(value, dict):
                    groups += [value] if group is data else []
                elif role != "label":
                    n_dimensions += 1
                    self._mark(label, name, value, marks)
        if marks:
            self.marks.setdefault(label, {}).update(marks)
        if claim is None:
            return
        if not n_dimensions:
            self._score(label, claim)
        number = read_mark(claim) if isinstance(claim, (str, bool)) else claim
        if isinstance(number, NUMBERS) and abs(number) < 10**9:
            self.claimed[label] = float(number)
        elif n_dimensions:
            self._flag(f"claim_dropped:{label}={shown(claim)}")

    def _mark(self, label: str, dimension: str, value: Any, marks: dict[str, float]) -> None:
        """Take one mark, unless its dimension is too long, not printable or one of too many."""
        for key, inner in value.items() if isinstance(value, dict) else ():
            if isinstance(key, str) and _role(key)[1] == "note" and isinstance(inner, str):
                self._note(label, inner, about=dimension)
        mark = read_mark(_inner_mark(value))
        fits = 0 < len(dimension) <= MAX_DIMENSION_CHARACTERS and dimension.isprintable()
        if mark is None:
            self._flag(f"mark_dropped:{label}.{shown(dimension)}={shown(_inner_mark(value))}")
        elif not fits or len(self.dimensions | {dimension}) > MAX_DIMENSIONS:
            self._flag(f"dimension_dropped:{label}.{shown(dimension)}")
        else:
            self.dimensions.add(dimension)
            marks[dimension] = mark

    def _note(self, label: str, value: Any, about: str = "") -> None:
        parts = value if isinstance(value, LISTS) else [value]
        text = "\n".join([part.strip() for part in parts if isinstance(part, str)]).strip()
        if text:
            text = f"{about}: {text}" if about else text
            self.notes[label] = f"{self.notes[label]}\n{text}" if label in self.notes else text


@cached_if_short
def _role(key: str) -> tuple[str, str]:
    """What a key of an evaluation is called, and what it is for."""
    name = valid_text(fold_key(key))
    for role, names in ROLES:
        if name in names:
            return name, role
    return name, "note" if NOTE_KEY.fullmatch(name) else "dimension"


def _is_note(name: str, value: Any) -> bool:
    """Whether this is a remark; "reasoning: 7" is a mark of a dimension by that name."""
    if isinstance(value, NUMBERS):
        return False
    return name in REMARK_KEYS or read_mark(_inner_mark(value)) is None


def _inner_mark(value: Any) -> Any:
    """The mark of a dimension that is given with its reasons."""
    return key_value(value, *MARK_KEYS) if isinstance(value, dict) else value
