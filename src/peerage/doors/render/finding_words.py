"""Findings of an audit in plain sentences, with advice for serious ones."""

from __future__ import annotations

from collections.abc import Mapping

from peerage.doors.render.phrases import finding_value
from peerage.errors import few, how_many
from peerage.findings import Audit, Finding

GRAVE = ("evidence", "indicator")
N_NAMED = 6  # accused reviewers that a headline names
PREFIXES = {"evidence": "evidence of bias against", "indicator": "an indicator of bias against"}
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
    """Return which reviewers an audit has evidence or indicators against, in one sentence."""
    judged = {one.subject.partition(">")[0] for one in audit.findings} - {"all"}
    if all(one.status == "too_few" for one in audit.findings):
        return "Bias is unknown so far: there is too little data."
    accused, words = set[str](), []
    for status in GRAVE:
        names = {one.subject.partition(">")[0] for one in audit.findings if one.status == status}
        if new := sorted(names & judged - accused):
            of = "" if accused else f" of {how_many(len(judged), 'reviewer')}"
            words.append(f"{PREFIXES[status]} {len(new)}{of}: {few(new, N_NAMED)}")
        accused |= names
    text = "; ".join(words) or "no reviewer shows signs of bias"
    return f"{text[0].upper()}{text[1:]}."


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
