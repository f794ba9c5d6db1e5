"""Boards and audits beside people: three shares, what is assumed, and refusals."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import peerage
from peerage.errors import PeerageError


def write_table(file: Path, n: int, n_people: int, *, is_unanimous: bool = False) -> Path:
    """Three models; two judges who favour the worst one, and two people on the first queries."""
    rng = random.Random(3)
    lines = ["session_id,reviewer,candidate,score,words,category"]
    for i in range(n):
        quality = {"x": 0.7, "y": 0.5, "z": 0.3}
        drawn = {name: value + rng.gauss(0, 0.3) for name, value in quality.items()}
        if is_unanimous:
            drawn = quality
        for who in ("j1", "j2", *(("p1", "p2") if i < n_people else ())):
            for name, value in drawn.items():
                bias = 0.3 if who.startswith("j") and name == "z" else 0.0
                noise = 0.0 if is_unanimous else rng.gauss(0, 0.2)
                words = rng.randint(50, 200)
                lines.append(f"s{i},{who},{name},{value + bias + noise},{words},c{i % 2}")
    file.write_text("\n".join(lines))
    return file


def test_the_correction_takes_off_the_judges_bias(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 240, 80)
    board = peerage.board_models(table, people=("p1", "p2"))
    row = {one["model"]: one for one in board.rows}["z"]
    assert row["judges"] > row["people"] + 0.1
    assert abs(row["corrected"] - row["people"]) < 0.05
    assert row["corrected_high"] - row["corrected_low"] < row["people_high"] - row["people_low"]
    notes = board.notes["people"]
    assert notes["queries_with_people"] == 80
    assert "drawn at random" in notes["note"]


def write_noise_free(file: Path, seed: int, judges: str, *, is_complete: bool = False) -> Path:
    """Five models of fixed quality, some missing in each session; people review some sessions."""
    rng = random.Random(seed)
    lines = ["session_id,reviewer,candidate,score"]
    for i in range(90):
        models = "abcde" if is_complete else rng.sample("abcde", rng.choice((2, 2, 3, 4)))
        people = "pq" if i < 25 or rng.random() < 0.3 else ""
        for who in judges + people:
            lines += [f"s{i},{who},{one},{'edcba'.index(one)}" for one in models if one != who]
    file.write_text("\n".join(lines))
    return file


@pytest.mark.parametrize("judges", ["xyz", "abcde", "aexy"])
@pytest.mark.parametrize("seed", range(4))
def test_identical_judges_and_people_have_equal_shares_on_any_sessions(
    tmp_path: Path, seed: int, judges: str
) -> None:
    table = write_noise_free(tmp_path / "t.csv", seed, judges)
    board = peerage.board_models(table, people="p,q")
    assert board.notes["people"]["corrected"]
    for row in board.rows:
        assert row["people"] == pytest.approx(row["judges"], abs=1e-9)
        assert row["corrected"] == pytest.approx(row["judges"], abs=1e-9)


def test_the_share_of_the_judges_is_that_of_the_board_without_people(tmp_path: Path) -> None:
    table = write_noise_free(tmp_path / "t.csv", 7, "xyz")
    with_people = {
        row["model"]: row["judges"] for row in peerage.board_models(table, people="p,q").rows
    }
    lines = [line for line in table.read_text().split("\n") if line.split(",")[1] not in "pq"]
    table.write_text("\n".join(lines))
    board = peerage.board_models(table)
    assert board.parameters["ranked_by"] == "share_common"
    assert with_people == pytest.approx(
        {row["model"]: row["share_common"] for row in board.rows}, abs=1e-9
    )


def test_where_all_models_met_the_shares_are_plain_means(tmp_path: Path) -> None:
    table = write_noise_free(tmp_path / "t.csv", 1, "xyz", is_complete=True)
    for row in peerage.board_models(table, people="p,q").rows:
        assert row["judges"] == row["people"] == row["corrected"] == row["share"]


def test_below_twenty_queries_nothing_is_corrected_and_the_board_says_so(tmp_path: Path) -> None:
    board = peerage.board_models(write_table(tmp_path / "t.csv", 60, 19), people=("p1", "p2"))
    assert all(row["corrected"] is None for row in board.rows)
    assert all(row["people"] is not None for row in board.rows)
    assert "below 20" in board.notes["people"]["note"]


def test_where_people_agree_exactly_the_interval_is_not_empty(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 60, 30, is_unanimous=True)
    for row in peerage.board_models(table, people="p1,p2").rows:
        assert row["corrected_high"] - row["corrected_low"] > 0.05


def test_an_audit_names_the_judges_who_depart_from_people(tmp_path: Path) -> None:
    audit = peerage.audit(write_table(tmp_path / "t.csv", 240, 80), people="p1,p2")
    named = {one.subject for one in audit.findings if one.status == "evidence"}
    assert {"j1>z", "j2>z"} <= named
    metrics = {one.metric for one in audit.findings}
    assert {"people_model", "people_length", "people_category"} <= metrics


def test_without_people_or_with_unknown_ones_it_is_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 30, 0)
    with pytest.raises(PeerageError, match="by a person"):
        peerage.board_models(table, people=())
    with pytest.raises(PeerageError, match="nobody"):
        peerage.board_models(table, people="nobody")


def test_advice_is_chosen_on_one_half_and_tested_on_the_other(tmp_path: Path) -> None:
    lines = ["session_id,reviewer,candidate,score"]
    rng = random.Random(5)
    for i in range(80):
        for model in "xyz":
            value = rng.gauss("zyx".index(model), 1.0)
            lines += [f"s{i},j{k},{model},{value + rng.gauss(0, 0.2 + 0.4 * k)}" for k in range(4)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines))
    advice = peerage.advise(file, within=0.1, price=("j0=1", "j1=2", "j2=3", "j3=4"))
    assert advice.queries == (40, 40)
    assert advice.cheapest is not None
    assert advice.cheapest.price_usd is not None
    assert advice.full_price_usd == 10.0
    assert advice.cheapest.price_usd < 10.0
    assert "shares its errors" in advice.note
    with pytest.raises(PeerageError, match="must be a judge"):
        peerage.advise(file, price=("j0=cheap",))
