"""`peerage audit`: a verdict first, JSON without a NaN, an exit code for CI, a page of its own."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len

from peerage.doors.cli import board_commands
from peerage.doors.cli.common_options import Common, JudgementFiles
from peerage.doors.cli.terminal import Terminal
from peerage.doors.render.finding_words import audit_headline, audit_verdict
from peerage.doors.render.pages import audit_page, taste_chart
from peerage.doors.render.report_views import position_line, show_audit
from peerage.doors.web.judge_pages import findings_in_words
from peerage.findings import Audit, AuditTastes, Departure
from peerage.reports.from_tables import audit
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews


def table(planted: Planted = Planted()) -> dict[str, np.ndarray]:  # noqa: B008
    return simulated_reviews(SimulatedSeason(n_sessions=60), planted, 2)


HARSH = Planted(harshness={"b": -1.5})


def run(
    reviews: Any,
    *,
    as_json: bool = False,
    quiet: bool = False,
    config_file: Path | None = None,
    **how: Any,
) -> int:
    return board_commands.audit(
        reviews=JudgementFiles(reviews=reviews),
        common=Common(config=config_file, json=as_json, quiet=quiet),
        **how,
    )


def test_the_verdict_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    run(table(HARSH))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Evidence of bias in 1 of ")
    assert lines[1].lstrip().startswith("evidence  calibration, b:")
    assert any("score by position" in line for line in lines)
    assert any(line.startswith("| metric") for line in lines)


def test_a_terminal_says_once_why_metrics_are_not_identifiable_and_what_q_is() -> None:
    found = audit(table(HARSH))
    out = io.StringIO()
    show_audit(Terminal(file=out, width=80, force_terminal=True, no_color=True), found)
    text = re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()))
    notes = {one.note for one in found.findings if one.status == "not_identifiable"}
    assert notes
    assert [text.count(note) for note in sorted(notes)] == [1] * len(notes)
    assert "q: p corrected for all findings" in text


def test_small_effects_of_position_are_drawn_on_the_scale_of_the_healthy_range() -> None:
    found = audit(table())
    line = position_line(found)
    curve = [point["mean"] for point in found.views["position_curve"]]
    limit = next(one.edge for one in found.findings if one.metric == "position")
    assert max(map(abs, curve)) < limit / 2
    assert f"(±{limit:.2g})" in line
    assert not {"▁", "█"} & set(line)


def test_an_audit_of_ranks_speaks_of_shares_and_shows_no_mean_scores() -> None:
    columns = table()
    scores = columns.pop("score")
    same = (columns["session_id"], columns["reviewer"])
    above = [
        (same[0] == session) & (same[1] == reviewer) & (scores > score)
        for session, reviewer, score in zip(*same, scores, strict=True)
    ]
    columns["rank"] = np.array([1 + int(one.sum()) for one in above])
    out = io.StringIO()
    show_audit(Terminal(file=out, width=200), audit(columns))
    assert "share of rivals by position" in out.getvalue()
    assert "points by position" not in out.getvalue()
    assert "mean score" not in out.getvalue()


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    run(table(HARSH), as_json=True)
    document = json.loads(capsys.readouterr().out)
    named = [(r["metric"], r["subject"]) for r in document["findings"] if r["status"] == "evidence"]
    assert named == [("calibration", "b")]


def test_fail_on_evidence_ends_with_one_only_where_there_is_some(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(table(), fail_on="evidence", quiet=True) == 0
    assert run(table(HARSH), quiet=True) == 0
    assert run(table(HARSH), fail_on="evidence", quiet=True) == 1


def test_limits_come_from_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "peerage.toml"
    file.write_text("[audit.healthy]\ncalibration = 5.0\n")
    run(table(HARSH), config_file=file, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert not [r for r in document["findings"] if r["status"] == "evidence"]


def test_the_page_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    run(table(HARSH), html=page, quiet=True)
    text = page.read_text(encoding="utf-8")
    assert "Harshness" in text
    assert "<svg" in text
    assert "http" not in text
    assert "<script" not in text
    for chart in text.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + chart.split("</svg>")[0] + "</svg>")  # noqa: S314 — our own


def test_names_on_the_page_are_text_and_not_markup() -> None:
    columns = table(HARSH)
    evil = "<b>&\"'"
    for name in ("reviewer", "candidate"):
        columns[name] = np.where(columns[name] == "b", evil, columns[name])
    page = audit_page(audit(columns))
    assert evil not in page
    assert "&lt;b&gt;&amp;" in page


LONG = {
    "a": "anthropic/claude-sonnet-4.5-20260929:thinking",
    "b": "meta-llama/llama-4.5-maverick-405b-instruct:free",
}


def long_names() -> dict[str, np.ndarray]:
    """Reviews of six seats, two with long names; the first is fond of its own answers."""
    season = SimulatedSeason(("a", "b", "c", "d", "e", "f"), n_sessions=60)
    columns = simulated_reviews(season, Planted(self_preference={"a": 1.5}), 2)
    for name in ("reviewer", "candidate"):
        columns[name] = np.array([LONG.get(who, who) for who in columns[name]], dtype=object)
    return columns


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_draws_tastes_in_its_width_with_own_answers_marked(width: int) -> None:
    out = io.StringIO()
    show_audit(Terminal(file=out, width=width, force_terminal=True), audit(long_names()))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).split("Tastes:")[1].splitlines()
    assert max(map(cell_len, lines)) <= width
    drawn = [line for line in lines if "◆" in line and "·" in line]
    assert len(drawn) == 6
    (fond,) = (line for line in drawn if line.startswith(("anthropic", "claude")))
    strip = re.search(r"[·●◆│]{15,}", fond)
    assert strip is not None
    assert strip[0].index("◆") > strip[0].rindex("●")


def test_the_document_shows_tastes_as_a_terminal_does() -> None:
    """Title, heads and key; the numbers are those of another season."""
    seats = ("able", "baker", "charlie", "delta", "echo", "fox", "golf", "hotel")
    season = SimulatedSeason(seats, n_sessions=30)
    out = io.StringIO()
    console = Terminal(file=out, width=80, force_terminal=True, no_color=True)
    show_audit(console, audit(simulated_reviews(season, Planted(), 5)))
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    document = Path(__file__).parents[2] / "docs" / "audit.md"
    written = re.search(r"```\n(Tastes:.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    assert written is not None
    shown, ours = (
        [" ".join(re.sub(r"[+-]?\d\.\d\d", "0.00", line).split()) for line in text.splitlines()]
        for text in (drawn[drawn.index("Tastes:") :], written[1])
    )
    assert shown[:2] == ours[:2]
    assert shown[-3:] == ours[-3:]
    assert len(shown) == len(ours)


def test_a_pipe_has_tastes_as_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    run(long_names())
    lines = capsys.readouterr().out.split("Tastes:")[1].splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert [head.strip() for head in rows[0].split("|")[1:-1]] == [
        *("reviewer", "own ◆", "others", "likes most")
    ]
    assert sum(LONG["a"] in line.split("|")[1] for line in rows) == 1
    assert "●" not in "".join(lines)


def test_the_page_draws_tastes_with_own_answers_marked_and_every_number_as_text() -> None:
    page = audit_page(audit(long_names()))
    figures = page.split('<div class="tastes">')[1].split("</div>")[0].split("<figure>")[1:]
    assert len(figures) == 6
    for figure in figures:
        lines = re.split(r"<li[ >]", figure)[1:-1]  # the last is the scale
        assert len(lines) == 6
        assert sum("own answers" in line and "diamond" in line for line in lines) == 1
        assert all(re.search(r"[+-]\d\.\d\d<", line) and "95% from" in line for line in lines)
    assert "style=" not in page  # a strict policy for contents would drop it


def test_a_page_of_many_reviewers_and_models_draws_the_first_and_says_so() -> None:
    names = [f"model-{i:02}" for i in range(20)]
    departures = tuple(
        Departure(judge, model, judge == model, 0.01 * (i - j), None, None, 9)
        for i, judge in enumerate(names)
        for j, model in enumerate(names)
    )
    chart = taste_chart(AuditTastes(0.2, "estimated", departures))
    assert chart is not None
    assert (len(chart.judges), chart.n_left_out) == (12, 8)
    assert all(len(judge.lines) == 16 and judge.n_left_out == 4 for judge in chart.judges)
    assert all(judge.own is not None for judge in chart.judges)
    page = audit_page(Audit((), tastes=AuditTastes(0.2, "estimated", departures)))
    assert "8 more reviewers are not drawn" in page
    assert "4 more models, nearer to 0" in page


def test_where_no_departure_is_known_no_taste_is_drawn() -> None:
    untold = (Departure("a", "b", False, None, None, None, 9, "too few"),)
    assert taste_chart(AuditTastes(0.25, "assumed", untold)) is None
    assert taste_chart(None) is None


def test_where_nothing_was_found_it_is_said_how_many_checks_could_have_found_something() -> None:
    audited = audit(table())
    assert 0 < audited.n_able < len(audited.findings)
    reach = f"{audited.n_able} of {len(audited.findings)} checks could find something here"
    assert audit_verdict(audited).startswith(f"{reach}; none did. ")
    assert audited.document()["n_able"] == audited.n_able


def test_where_no_check_could_find_anything_it_is_too_early_and_says_what_is_needed() -> None:
    columns = table()
    first = np.asarray(columns["session_id"]) == columns["session_id"][0]
    audited = audit({name: np.asarray(values)[first] for name, values in columns.items()})
    assert audited.n_able == 0
    for line in (audit_headline(audited), audit_verdict(audited)):
        assert line.startswith(f"Too early to say: none of {len(audited.findings)} checks could ")
        assert " it needs." in line
    assert "too early to say: no check could find something here" in audit_page(audited)


def test_a_few_ballots_without_scores_do_not_turn_an_audit_of_scores_to_ranks() -> None:
    rows = [
        {
            "session_id": f"s{i}",
            "reviewer": reviewer,
            "candidate": candidate,
            "rank": 1 + place,
            "score": None if i == 0 else 9.0 - place - (i % 3),
        }
        for i in range(12)
        for reviewer in "xyz"
        for place, candidate in enumerate("abc")
    ]
    result = audit(rows)
    [mean] = [one.value for one in result.findings if one.metric == "calibration"][:1]
    assert mean is not None
    assert mean > 1.0  # a share would be at most 1
    assert "9 reviews with a rank and without a score not audited" in result.views["flags"]


@pytest.mark.parametrize("others_rank", [True, False])
def test_a_reviewer_without_scores_is_audited_by_rankings_beside_those_with_scores(
    others_rank: bool,
) -> None:
    luck = random.Random(3)
    rows = []
    for i in range(60):
        quality = {candidate: luck.gauss(0.0, 1.0) for candidate in "abc"}
        for reviewer in ("x", "y", "z", "flo"):
            shown = luck.sample("abc", 3)
            felt = {name: quality[name] + luck.gauss(0.0, 0.7) for name in shown}
            if reviewer == "flo":
                felt[shown[0]] += 3.0
            best_first = sorted(shown, key=lambda name: -felt[name])
            rows += [
                {
                    "session_id": f"s{i}",
                    "reviewer": reviewer,
                    "candidate": name,
                    "rank": 1 + best_first.index(name)
                    if others_rank or reviewer == "flo"
                    else None,
                    "position": shown.index(name),
                    "score": None if reviewer == "flo" else 5.0 + felt[name],
                }
                for name in shown
            ]
    result = audit(rows)
    by_subject = {(one.metric, one.subject): one for one in result.findings}
    assert len(by_subject) == len(result.findings)
    assert by_subject["position", "flo"].status == "evidence"
    assert by_subject["calibration", "x"].value > 3.0  # in points: others stay on their scores
    assert result.views["ranked"] == ["flo"]
    assert (result.views["reviewers"], result.views["reviews"]) == (4, 720)
    assert "no scores, so audited by their rankings: flo" in result.views["flags"]
    text = "\n".join(sentence for _, sentence, _ in findings_in_words(result))
    assert "flo lets answers shown at the first place beat 65 % more of their rivals" in text
    only = [row for row in rows if row["reviewer"] != "flo"]
    assert {one.subject for one in audit(only).findings} < {one.subject for one in result.findings}
