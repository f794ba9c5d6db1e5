"""The pages of public sets: built from a folder, twice the same; the committed ones complete."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from showcase import public_sets
from showcase.__main__ import PAGES, main
from showcase.layout import mean_figure, share_figure, table

JUDGES = ("careful", "blind", "always")
KINDS = ("clean", "wrong_tool", "premature_stop")


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """A folder like the one that a reader fetches, with thirty instances of made-up runs."""
    rng = random.Random(7)
    results = tmp_path / "fetched" / "trajectory-judge" / "results"
    (results / "raw").mkdir(parents=True)
    (results / "tables").mkdir()
    runs, verdicts = [], []
    for i in range(30):
        for kind in KINDS:
            id_, is_faulty = f"i{i}-{kind}", kind != "clean"
            label = {
                "failure_type": kind if is_faulty else None,
                "outcome_correct": kind != KINDS[2],
            }
            runs.append({"trajectory_id": id_, "instance_id": f"i{i}", "label": label})
            says = {"careful": is_faulty, "blind": rng.random() < 0.5, "always": True}
            verdicts += [
                {"trajectory_id": id_, "judge_id": judge, "faulty": says[judge], "error": None}
                for judge in JUDGES
            ]
    for name, rows in (("trajectories", runs), ("verdicts", verdicts)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (results / "raw" / f"{name}.jsonl").write_text(text)
    (results / "tables" / "summary.md").write_text(
        "| Judge | F1 | Silent | Loud | False | Step | Type | ECE | s |\n"
        "| `careful` | 1.000 | 1.000 | 1.000 | 0.000 | n/a | 1 | 0 | 0 |\n"
        "| `always` | 0.812 | 1.000 | 1.000 | 1.000 | n/a | 1 | 0 | 0 |\n"
    )
    return tmp_path / "fetched"


def test_a_page_is_built_from_a_folder_and_is_the_same_the_second_time(fetched, tmp_path):
    for name in ("one", "two"):
        assert main([str(fetched), "trajectories", "--to", str(tmp_path / name)]) == 0
    one, two = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two
    assert set(one) == {"README.md", "trajectories.md", "trajectories-silent.svg"}
    page = one["trajectories.md"].decode()
    assert "7 of 8 agree in all three digits" in page  # the planted 0.812 is not the F1
    assert "0.812 / 0.800" in page
    assert re.search(r"\| careful \| 1 \| 1–", page)
    assert "| 1.000 (0.884 … 1.000), n = 30 |" in page  # never a point where all are alike


def test_sets_that_were_not_fetched_are_named_and_nothing_is_an_error(fetched, tmp_path, capsys):
    assert main([str(fetched), "--to", str(tmp_path / "out")]) == 0
    assert "debate: no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["nowhere"], "holds none of: debate"), (["nowhere", "chess"], "no set 'chess'")],
)
def test_a_folder_without_any_set_and_a_set_that_is_not_known_are_refused(
    arguments, words, tmp_path, capsys
):
    assert main([*arguments, "--to", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_without_the_files_of_its_set_is_refused_in_words(tmp_path, capsys):
    (tmp_path / "PandaLM").mkdir()
    assert main([str(tmp_path), "pandalm", "--to", str(tmp_path / "out")]) == 2
    assert "Fetch WeOpenML/PandaLM at 3871806e72b4" in capsys.readouterr().err


def test_every_set_has_its_page_with_source_licence_and_command():
    assert len(public_sets()) >= 4
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for one in public_sets():
        page = (PAGES / f"{one.name}.md").read_text(encoding="utf-8")
        assert f"]({one.name}.md)" in index
        assert one.source.commit in page
        assert one.source.commit in index
        assert one.source.licence in page
        assert f"./dev showcase DIR {one.name}" in page
        assert "## What cannot be known" in page
        for chart in re.findall(r"\((\S+\.svg)\)", page):
            assert (PAGES / chart).is_file()


def test_an_interval_over_few_clusters_is_wider_than_over_as_many_values():
    values = [(i // 10, float(i // 10 % 2)) for i in range(100)]
    by_cluster, alone = mean_figure(values), mean_figure((i, v) for i, (_, v) in enumerate(values))
    assert by_cluster.value == alone.value == 0.5
    assert by_cluster.high - by_cluster.low > 2 * (alone.high - alone.low)


def test_a_share_stays_between_0_and_1_and_is_never_certain():
    never = share_figure((i, False) for i in range(50))
    rare = share_figure((i, i == 0) for i in range(50))
    assert (never.value, never.low) == (0.0, 0.0)
    assert 0.05 < never.high < 0.1
    assert rare.low == 0.0


def test_a_bar_in_a_name_does_not_end_a_cell():
    assert "a\\|b" in table(("name", "n"), [("a|b", 1)])
