"""The judges' pages: every reviewer's measurements, findings in words, and comparisons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.anchors import AnchorReport, anchors_of_reports
from peerage.doors.http.access import READ, Serving
from peerage.doors.render.finding_words import (
    GRAVE,
    audit_counts,
    audit_headline,
    describe_reach,
    is_in_shares,
    name_subject,
    sentence_and_advice,
    words_of_metric,
)
from peerage.doors.render.judge_views import advice_blocks, alarm_lines, anchors_blocks
from peerage.doors.render.pages import Axis, audit_charts, axis_around, taste_chart
from peerage.doors.render.phrases import flag_text
from peerage.doors.render.report_views import STATUS_STYLES
from peerage.doors.render.scorecard_views import scorecard_blocks
from peerage.doors.web.templating import PageRoute, kept_page, without_backticks
from peerage.errors import InputError, NotFoundError, PeerageError, how_many
from peerage.findings import Audit, Finding
from peerage.reports.options import AdviseOptions, AuditOptions, PassportOptions
from peerage.reports.page_facts import (
    ModelFacts,
    compare_reviewers,
    facts_of_models,
    stored_rows,
)
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

# The measurements of each reviewer: the head of the column, and the meaning of the number.
COLUMNS: Mapping[str, tuple[str, str]] = {
    "calibration": ("Mean mark", "harsh or generous"),
    "agreement": ("Agreement", "correlation with the others"),
    "self_preference": ("Own answers", "points beyond the others’ mean"),
    "position": ("Place shown", "points for the most different position"),
    "length_relative": ("Length", "points per standard deviation of words"),
    "drift": ("Drift", "a week"),
}
VOTE_COLUMNS: Mapping[str, tuple[str, str]] = {  # for seats that vote on typed questions
    "vote_agreement": ("Agreement", "correlation with the others"),
    "vote_labels": ("Labels", "right beyond guessing"),
    "vote_sureness": ("Too sure", "probability beyond what is right"),
    "vote_lean": ("Yes", "more often than the others"),
    "vote_first": ("First option", "more often than the others"),
}
COUNTS = (("n_asked_again", "Asked again"), ("n_unsealed", "Without code"))
UNITS = {  # the unit of each metric's value, in words
    "calibration": "points, mean mark",
    "agreement": "correlation with the others",
    "self_preference": "points on its own answers",
    "family_preference": "points on its family",
    "position": "points for the most different position",
    "length": "correlation of marks and words",
    "length_relative": "points per standard deviation of words",
    "anchoring": "points per point of the first answer",
    "consistency": "points between two reviews",
    "style": "correlation with its own style",
    "drift": "points per week",
    "effective_votes": "independent votes",
    "pair_departure": "points on one candidate",
    "reasoning_length": "correlation with words of reasoning",
    "contradiction": "share of contradicting answers praised",
    "style_change": "difference in correlation with its own style",
    "vote_agreement": "correlation with the others’ votes",
    "vote_lean": "of the predicates",
    "vote_first": "of the choices",
    "vote_labels": "right beyond guessing",
    "vote_sureness": "probability beyond what is right",
}
AT_LEAST = (
    "agreement",
    "effective_votes",
    "vote_agreement",
    "vote_labels",
)  # healthy if the value is at or above the edge
AROUND_THE_MEAN = ("calibration",)  # healthy if the value is near the mean of the panel
TOLD = (*GRAVE, "clear", "inconclusive")  # statuses of findings that are shown as sentences
STATUS_ORDER = tuple(STATUS_STYLES)  # the most serious first
N_NAMED = 4  # how many reviewers with the same unknown are named


@router.get("/judges")
async def judges(request: Request, service: Serving, a: str = "", b: str = "") -> Response:
    """Return every reviewer with its numbers; optionally, two reviewers side by side."""

    def make() -> dict[str, Any]:
        return {"address": "", "a": a, "b": b, **_bench(service, a, b)}

    return await kept_page(request, "judges.html", "/judges", make)


@router.get("/judges/reviewer")
async def reviewer(request: Request, service: Serving, name: str) -> Response:
    """Return one reviewer: measurements against healthy ranges, its tastes, and its replies."""

    def make() -> dict[str, Any]:
        return {"address": "", "name": name, **_reviewer_values(service, name)}

    return await kept_page(request, "reviewer.html", "/judges", make)


@router.get("/judges/anchors")
async def anchors(request: Request, service: Serving) -> Response:
    """Return the results of the anchor checks: alarms, each judge's shift, and a chart."""

    def make() -> dict[str, Any]:
        try:
            report = anchors_of_reports(service.reports)
        except InputError as error:
            return {"address": "", "report": None, "hint": _in_words(error)}
        alarms = list(alarm_lines(report))
        blocks = list(anchors_blocks(report))[len(alarms) :]
        return {
            "address": "",
            "report": report,
            "alarms": alarms,
            "blocks": [(type(one).__name__, one) for one in blocks],
            "chart": shift_chart(report),
        }

    return await kept_page(request, "anchors.html", "/judges", make, of_every_event=True)


@router.get("/judges/advice")
async def advice(
    request: Request, service: Serving, within: str = "0.02", price: str = ""
) -> Response:
    """Return each judge's contribution, cheaper panels and a cascade."""

    def make() -> dict[str, Any]:
        form = {"address": "", "within": within, "price": price, "blocks": [], "hint": ""}
        try:
            prices = [one for one in price.split(",") if one.strip()]
            options = AdviseOptions.of({"within": within, "price": prices})
            advice = service.reports.advise(options)
        except PeerageError as error:
            return {**form, "hint": _in_words(error)}
        return {**form, "blocks": [(type(one).__name__, one) for one in advice_blocks(advice)]}

    return await kept_page(request, "advice.html", "/judges", make)


@router.get("/judges/passport")
async def passport(request: Request, service: Serving, name: str) -> Response:
    """Return the content of this reviewer's passport, computed from the log."""

    def make() -> dict[str, Any]:
        statement = service.reports.passport(PassportOptions(reviewer=name)).document()
        claims = statement["predicate"]["claims"]
        return {
            "address": "",
            "name": name,
            "told": statement["predicate"],
            "digest": statement["subject"][0]["digest"]["sha256"],
            "n_by_status": Counter(one["status"].replace("_", " ") for one in claims),
        }

    return await kept_page(request, "passport.html", "/judges", make, of_every_event=True)


def _in_words(error: PeerageError) -> str:
    """Return an error's message and hint, with commands in backticks."""
    return " ".join(filter(None, (error.message, error.hint)))


class ShiftLine(NamedTuple):
    """The shifts of one judge's marks by check, in percent of the chart."""

    judge: str
    points: Sequence[tuple[float, float]]
    has_changed: bool


class ShiftChart(NamedTuple):
    """The shifts of all judges' marks on the anchors."""

    lines: Sequence[ShiftLine]
    heights: Sequence[tuple[str, float]]
    ticks: Sequence[tuple[str, float]]


def shift_chart(report: AnchorReport) -> ShiftChart | None:
    """Return the shifts of all judges over the checks; None with fewer than two checks."""
    n = max((len(one.shifts) for one in report.judges), default=0)
    shifts = [x for one in report.judges for x in one.shifts if x is not None]
    if n < 2 or not shifts:
        return None
    axis = axis_around([0.0, *shifts])

    def x(i: int) -> float:
        return round(100 * i / (n - 1), 2)

    lines = [
        ShiftLine(
            one.judge,
            [(x(i), 100 - axis.x(y)) for i, y in enumerate(one.shifts) if y is not None],
            one.status == "changed",
        )
        for one in report.judges
    ]
    step = max(1, n // 6)
    return ShiftChart(
        lines,
        [(f"{at:+g}" if at else "0", 100 - axis.x(at)) for at in axis.ticks],
        [("first" if i == 0 else str(i), x(i)) for i in range(0, n, step)],
    )


def _bench(service: Service, a: str, b: str) -> dict[str, Any]:
    """Return all values of the judges' page."""
    try:
        audit = service.reports.audit(AuditOptions())
    except InputError as error:
        return {"judges": {}, "voters": {}, "hint": without_backticks(str(error))}
    names = sorted({one.subject for one in audit.findings if one.metric == "calibration"})
    voters = sorted({one.subject for one in audit.findings if one.metric in VOTE_COLUMNS})
    stored = stored_rows(service.reports) if a and b and a != b else None
    pair = compare_reviewers(stored, a, b) if stored else None
    bars = finding_bars(audit)
    measured = {one.finding.metric for one in bars if one.finding.value is not None}
    by_subject: dict[str, dict[str, FindingBar]] = defaultdict(dict)
    for one in bars:
        by_subject[one.finding.subject][one.finding.metric] = one
    facts = facts_of_models(service.store)
    return {
        "judges": {name: by_subject[name] for name in names},
        "voters": {name: by_subject[name] for name in voters},
        "votes": audit.views.get("votes", {}),
        "vote_columns": {name: words for name, words in VOTE_COLUMNS.items() if name in measured},
        "columns": {
            name: (head, _unit(unit, is_in_shares(audit)))
            for name, (head, unit) in COLUMNS.items()
            if name in measured
        },
        "facts": facts,
        "counts": [  # counts of replies that are not 0 for all reviewers
            one
            for one in COUNTS
            if any(getattr(facts[name], one[0]) for name in names if name in facts)
        ],
        "headline": audit_headline(audit),
        "counts_by_status": audit_counts(audit),
        "reach": describe_reach(audit),
        "flags": [flag_text(flag) for flag in audit.views.get("flags", ())],
        "against_people": [
            (type(one).__name__, one) for one in scorecard_blocks(audit.against_people)
        ],
        "n_reviews": audit.views.get("reviews", 0),
        "grave": _grave_first(bars),
        "unknown": unknowns(audit.findings),
        "charts": audit_charts(audit),
        "tastes": taste_chart(audit.tastes),
        "pair": pair,
        "largest": max((max(row) for row in pair.confusion), default=1) if pair else 1,
        "hint": "",
    }


def _reviewer_values(service: Service, name: str) -> dict[str, Any]:
    """Return all values of a reviewer's page."""
    everyone = service.reports.audit(AuditOptions())
    findings = everyone.findings
    all_bars = finding_bars(everyone)
    bars = [one for one in all_bars if one.finding.subject == name]
    if not bars:
        raise NotFoundError(f"no reviews by {name!r}.")
    pairs = [one for one in all_bars if one.finding.subject.startswith(f"{name}>")]
    audit = service.reports.audit(AuditOptions(reviewer=name))
    mine = [one for one in findings if one.subject == name]
    bars.sort(key=lambda one: STATUS_ORDER.index(one.finding.status))
    return {
        "bars": [  # without the name that the page has as its title
            one._replace(sentence=one.sentence.replace(f", {name}: ", ": ", 1))
            for one in bars
            if one.finding.value is not None
        ],
        "pairs": [one for one in pairs if one.finding.status in GRAVE],
        "unknown": unknowns(one for one in mine if one.value is None),
        "tastes": taste_chart(audit.tastes),
        "facts": facts_of_models(service.store).get(name, ModelFacts()),
    }


# -- a finding as a small picture ------------------------------------------------------------------


class FindingBar(NamedTuple):
    """A finding with its interval, on the scale of its metric, with the healthy range."""

    finding: Finding
    axis: Axis
    healthy: tuple[float, float]  # start and width of the healthy range, in percent of the chart
    sentence: str
    advice: str
    unit: str


def finding_bars(audit: Audit) -> list[FindingBar]:
    """Return each finding as a bar; findings of one metric in one unit share a scale."""
    by_scale: dict[tuple[str, bool], list[Finding]] = defaultdict(list)
    for one in audit.findings:
        by_scale[one.metric, is_in_shares(audit, one.subject)].append(one)
    return [
        bar
        for (metric, in_shares), some in by_scale.items()
        for bar in _bars_of(metric, some, in_shares)
    ]


def _bars_of(metric: str, findings: Sequence[Finding], in_shares: bool) -> Iterator[FindingBar]:
    values = [one.value for one in findings if one.value is not None]
    middle = fmean(values) if metric in AROUND_THE_MEAN and values else 0.0
    enough = [one for one in findings if one.n >= one.n_min] or findings  # two reviews tell nothing
    ends = [x for one in enough for x in (one.value, one.low, one.high) if x is not None]
    top = max([0.0 if metric == "effective_votes" else 1.0, *ends]) if metric in AT_LEAST else None
    ranges = [_healthy_range(one.edge or 0.0, middle, top) for one in findings]
    axis = axis_around([*ends, *(x for pair in ranges for x in pair)])
    for one, (low, high) in zip(findings, ranges, strict=True):
        words = sentence_and_advice(one, in_shares) if one.value is not None else ("", "")
        healthy = axis.x(low), axis.x(high) - axis.x(low)
        yield FindingBar(one, axis, healthy, *words, _unit(UNITS.get(metric, ""), in_shares))


def _unit(words: str, in_shares: bool) -> str:
    return words.replace("points", "share of rivals") if in_shares else words


def _healthy_range(edge: float, middle: float, top: float | None) -> tuple[float, float]:
    """Return the healthy range: middle ± edge, or from the edge up to the top if one is given."""
    return (middle - edge, middle + edge) if top is None else (edge, max(edge, top))


def _grave_first(bars: Iterable[FindingBar]) -> list[FindingBar]:
    """Return the findings that need action, most serious first."""
    grave = [one for one in bars if one.finding.status in GRAVE and one.finding.value is not None]
    return sorted(grave, key=lambda one: GRAVE.index(one.finding.status))


def findings_in_words(audit: Audit) -> list[tuple[str, str, str]]:
    """Return status, sentence and advice of each notable finding, most serious first."""
    telling = [one for one in audit.findings if one.status in TOLD and one.value is not None]
    telling.sort(key=lambda one: TOLD.index(one.status))
    return [
        (one.status, *sentence_and_advice(one, is_in_shares(audit, one.subject))) for one in telling
    ]


def unknowns(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return the measurements that the audit could not make, and the data that each needs."""
    subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in findings:
        settled_by = {
            "too_few": f"{one.n} of the {one.n_min} observations it needs",
            "inconclusive": one.n_needed
            and f"about {how_many(one.n_needed, 'observation')} would settle it",
            "not_identifiable": one.note,
        }.get(one.status)
        if settled_by:
            subjects[one.metric, settled_by].append(name_subject(one.subject))
    return [
        (f"{words_of_metric(metric)[0]}, {_few(names)}", settled_by)
        for (metric, settled_by), names in subjects.items()
    ]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - N_NAMED} more" if len(names) > N_NAMED else ""
    return ", ".join(names[:N_NAMED]) + more
