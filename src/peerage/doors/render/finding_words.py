"""Findings of an audit in plain sentences, with advice for serious ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import get_args

from peerage.biases.thresholds import COUNTED
from peerage.doors.render.phrases import finding_value
from peerage.errors import few, how_many
from peerage.findings import Audit, Finding, Status

GRAVE = ("evidence", "indicator")
N_NAMED = 6  # accused reviewers that a headline names
PREFIXES = {"evidence": "evidence of bias against", "indicator": "an indicator of bias against"}
SHARED_PREFIXES = {
    "evidence": "evidence of a bias of all reviewers together",
    "indicator": "an indicator of a bias of all reviewers together",
}
STATUS_WORDS = {"too_few": "with too little data"}
# For each metric: its topic, its finding in words, and advice for a serious finding.
WORDS: Mapping[str, tuple[str, str, str]] = {
    "length": (
        "Marks and length",
        "longer answers score {sign} with {who}",
        "Look at the board at equal length.",
    ),
    "length_relative": (
        "Preference for length",
        "{who} gives {sign} for length than the others give the same answers",
        "Leave this reviewer out under “What if …” on the board, and see whether ranks change.",
    ),
    "position": (
        "Preference for a position",
        "{who} gives {points} points {sign} to answers shown at the {place}",
        "Keep the balanced order: over a season the effect cancels out. Do not trust single "
        "ballots.",
    ),
    "calibration": (
        "Harshness",
        "{who} marks at {value} on average",
        "Read the calibrated board: it removes each reviewer’s level and spread.",
    ),
    "self_preference": (
        "Preference for own answers",
        "{who} gives its own answers {points} points {sign} than the others do",
        "Keep own votes out, as they are by default.",
    ),
    "family_preference": (
        "Preference for its own family",
        "{who} gives its own family {points} points {sign} than the others do",
        "Add reviewers of other families, or leave this one out.",
    ),
    "anchoring": (
        "Anchoring on the first answer",
        "the first answer that {who} reads pulls its later marks",
        "Ask for fewer answers per ballot, or for two rounds.",
    ),
    "consistency": (
        "Consistency",
        "{who} marks the same answer differently when asked again",
        "Lower its temperature, or let it review in two rounds.",
    ),
    "style": (
        "Preference for its own style",
        "{who} rewards how an answer looks",
        "Say in the rubric that form does not count.",
    ),
    "contradiction": (
        "Praise for answers that contradict its own",
        "{who} praises {value} of the answers that it says contradict its own",
        "Read some of these reviews: either its own answers are often wrong, or it does not check.",
    ),
    "style_change": (
        "Preference for its own style, committed versus blind reviews",
        "{who} likes its own style {sign} when it first writes its own answer",
        "Prefer the kind of review in which the preference is smaller.",
    ),
    "pair_departure": (
        "Departure on one candidate",
        "{judge} rates {other} {level} than the others do, beyond its usual tastes",
        "Leave this reviewer out and compare the ranks.",
    ),
    "reasoning_length": (
        "Marks and length of reasoning",
        "long reasoning goes with {sign} marks by {who}",
        "",
    ),
    "agreement": (
        "Agreement with the others",
        "{who} agrees with the others at {value}",
        "Below .3 its votes are mostly noise: use another reviewer.",
    ),
    "effective_votes": (
        "Independent votes of the panel",
        "the panel’s votes are worth {value} independent ones",
        "Add models of other families: reviewers who err together count as fewer.",
    ),
    "drift": (
        "Drift over time",
        "{who} gets {sign} from week to week",
        "Pin the model’s version, and compare boards of equal windows.",
    ),
    "vote_agreement": (
        "Agreement of votes",
        "{who} agrees with the others’ votes at {value}",
        "Below .3 its votes are mostly noise: use another one, or label some of its questions.",
    ),
    "vote_lean": (
        "Leaning to yes",
        "{who} says yes {sign} often than the others",
        "Label some of these questions: labels separate a leaning from noise.",
    ),
    "vote_first": (
        "Leaning to the first option",
        "{who} takes the first option {sign} often than the others",
        "Ask with the options in another order.",
    ),
    "vote_labels": (
        "Votes compared with labels",
        "{who} is right on {value} of the labelled questions beyond guessing",
        "Use another one: its votes say little about these questions.",
    ),
    "vote_sureness": (
        "Claimed certainty",
        "{who} is {sign} sure than it is right",
        "Read the panel’s corrected probability, not the seat’s own.",
    ),
}


IN_SHARES = {  # by metric, the sentence if the audit is of ranks: its values are shares of rivals
    "position": "{who} lets answers shown at the {place} beat {percent} {sign} of their rivals",
    "self_preference": "{who} lets its own answers beat {percent} {sign} of their rivals than the "
    "others do",
    "family_preference": "{who} lets answers of its own family beat {percent} {sign} of their "
    "rivals than the others do",
}


def is_in_shares(audit: Audit, subject: str = "all") -> bool:
    """Return whether values are shares of rivals and not points, because ranks were audited."""
    ranked = audit.views.get("ranked", ())
    return audit.views.get("score") == "share" or subject.partition(">")[0] in ranked


def finding_sentence(finding: Finding, in_shares: bool = False) -> str:
    """Return what a serious finding says a reviewer does, without its interval and end."""
    value, who = finding.value or 0.0, name_subject(finding.subject)
    sentence = words_of_metric(finding.metric)[1]
    if in_shares:
        sentence = IN_SHARES.get(finding.metric, sentence)
    text = sentence.format(
        who=who,
        judge=finding.subject.partition(">")[0],
        other=finding.subject.partition(">")[2],
        sign="more" if value > 0 else "less",
        level="higher" if value > 0 else "lower",
        value=f"{value:.2f}",
        points=f"{abs(value):.1f}",
        percent=f"{abs(100 * value):.0f} %",
        place=finding.note.partition(" against")[0],  # a note on positions begins with one
    )
    return text if text.startswith(who) else text[:1].upper() + text[1:]


def audit_headline(audit: Audit) -> str:
    """Return which reviewers an audit has evidence or indicators against, in one sentence.

    If there are none, return how many checks could have found something.
    """
    judged = {one.subject.partition(">")[0] for one in audit.findings} - {"all"}
    accused, words = set[str](), []
    for status in GRAVE:
        grave = [one for one in audit.findings if one.status == status]
        names = {one.subject.partition(">")[0] for one in grave}
        if new := sorted(names & judged - accused):
            of = "" if accused else f" of {how_many(len(judged), 'reviewer')}"
            words.append(f"{PREFIXES[status]} {len(new)}{of}: {few(new, N_NAMED)}")
        accused |= names & judged
        if "all" in names:
            metrics = [one.metric for one in grave if one.subject == "all"]
            topics = few([words_of_metric(metric)[0].lower() for metric in metrics], N_NAMED)
            words.append(f"{SHARED_PREFIXES[status]}: {topics}")
    text = "; ".join(words)
    return f"{text[0].upper()}{text[1:]}." if text else describe_reach(audit)


def describe_reach(audit: Audit) -> str:
    """Return how many checks of an audit that found nothing could have found something.

    If none could, return what is needed.
    """
    n, n_able = len(audit.findings), audit.n_able
    if n_able:
        return f"{n_able:,} of {how_many(n, 'check')} could find something here; none did."
    none_of = f"none of {how_many(n, 'check')}" if n > 1 else "the only check cannot"
    could = f"{none_of} could find something here" if n > 1 else f"{none_of} find something here"
    return f"Too early to say: {could}. {_what_is_needed(audit)}".rstrip()


def reach_in_short(audit: Audit) -> str:
    """Return the same about one reviewer, without what is needed."""
    n, n_able = len(audit.findings), audit.n_able
    if not n_able:
        return "too early to say: no check could find something here"
    return f"{n_able:,} of {how_many(n, 'check')} could find something here; none did"


def _what_is_needed(audit: Audit) -> str:
    """Return which check is the nearest to its minimum, or why most cannot be measured."""
    few_yet = [one for one in audit.findings if one.status == "too_few" and one.n_min > 0]
    if few_yet:
        nearest = max(few_yet, key=lambda one: one.n / one.n_min)
        counted = COUNTED.get(nearest.metric, "observations")
        name, needed = nearest.metric.replace("_", " "), f"{nearest.n_min:,} {counted}"
        return f"The nearest, {name}, has {nearest.n:,} of the {needed} it needs."
    reasons = Counter(one.note for one in audit.findings if one.status == "not_identifiable")
    if reasons:
        return f"The most frequent reason: {reasons.most_common(1)[0][0]}."
    return "More sessions are needed." if audit.findings else ""


def audit_verdict(audit: Audit) -> str:
    """Return the first line of an audit: what was found or could be found, and the counts."""
    n_evidence = sum(one.status == "evidence" for one in audit.findings)
    n_indicators = sum(one.status == "indicator" for one in audit.findings)
    counts = audit_counts(audit)
    if not n_evidence and not n_indicators:
        return f"{describe_reach(audit)} {counts}".rstrip()
    n = how_many(len(audit.findings), "check")
    if n_evidence:
        return f"Evidence of bias in {n_evidence:,} of {n}. {counts}"
    able = f"{audit.n_able:,} of {n} could find something here"
    indicators = how_many(n_indicators, "indicator")
    return f"No evidence of bias, but {indicators}; {able}. {counts}"


def audit_counts(audit: Audit) -> str:
    """Return the numbers of findings by status, the most serious first."""
    by_status = Counter(one.status for one in audit.findings)
    counts = [
        f"{by_status[status]:,} {STATUS_WORDS.get(status, status.replace('_', ' '))}"
        for status in get_args(Status)[::-1]
        if by_status[status]
    ]
    text = ", ".join(counts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def sentence_and_advice(finding: Finding, in_shares: bool = False) -> tuple[str, str]:
    """Return a finding as a sentence with its numbers, and advice if it is serious."""
    numbers = f"{finding_value(finding)}, n {finding.n:,}"
    topic, _, advice = words_of_metric(finding.metric)
    if finding.status in GRAVE:
        return f"{finding_sentence(finding, in_shares)}: {numbers}.", advice
    state = "within the healthy range" if finding.status == "clear" else "inconclusive so far"
    return f"{topic}, {name_subject(finding.subject)}: {numbers}, {state}.", ""


def words_of_metric(metric: str) -> tuple[str, str, str]:
    """Return topic, sentence and advice for a metric, also for a plug-in's metric."""
    name = metric.replace("_", " ")
    return WORDS.get(metric, (name.capitalize(), f"{name} of {{who}} is unusual", ""))


def name_measurement(finding: Finding) -> str:
    """Return what a finding measures, in words, with the candidate of a pair."""
    topic, candidate = words_of_metric(finding.metric)[0], finding.subject.partition(">")[2]
    return f"{topic}: {candidate}" if candidate else topic


def name_subject(subject: str) -> str:
    """Return the subject of a finding in words."""
    return "everybody" if subject == "all" else subject.replace(">", " on ")
