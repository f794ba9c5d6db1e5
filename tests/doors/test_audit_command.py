"""`peerage audit`: a verdict first, JSON without a NaN, an exit code for CI, a page of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bench._simulated_reviews import Planted, SimulatedSeason, simulated_reviews
from peerage.doors.cli import board_commands
from peerage.doors.cli.common_options import Common, ReviewFiles
from peerage.doors.render.pages import audit_page
from peerage.doors.render.phrases import audit_verdict
from peerage.reports import audit


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
        reviews=ReviewFiles(reviews=reviews),
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
    assert "calibration" in text
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


def test_a_verdict_counts_in_words() -> None:
    assert audit_verdict(audit(table())).startswith("No evidence of bias in 69 findings; ")
