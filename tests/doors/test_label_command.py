"""`peerage label`: one key an answer, nothing lost, and the audit reads the labels by itself."""

from __future__ import annotations

import csv
import json


def write(path, n=60):
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "question", "answer", "judge"])
        for i in range(n):
            table.writerow([f"q{i}", f"Question {i}?", f"Answer {i}.", "✅❌"[i % 2]])
    return path


def labels_of(path):
    with (path.parent / f"{path.name}.labels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_labels_are_kept_next_to_the_file_which_stays_as_it_was(peerage, tmp_path):
    path = write(tmp_path / "answers.csv")
    before = path.read_bytes()
    done = peerage("label", path, "--person", "ann", stdin="p\nf\ns\nq\n")
    assert done.returncode == 0
    assert path.read_bytes() == before
    labels = labels_of(path)
    assert [one["label"] for one in labels] == ["pass", "fail", "skip"]
    assert {one["person"] for one in labels} == {"ann"}
    assert not {"✅", "❌"} & set(done.stdout)  # a person is not shown what the judge said


def test_a_person_goes_on_where_she_stopped(peerage, tmp_path):
    path = write(tmp_path / "answers.csv", 8)
    peerage("label", path, "--person", "ann", stdin="p\np\np\n")
    peerage("label", path, "--person", "ann", stdin="f\n" * 20)
    labels = labels_of(path)
    assert len({one["id"] for one in labels}) == len(labels) == 8
    again = peerage("label", path, "--person", "ann", stdin="")
    assert "has labelled all answers: 8 labels" in again.stdout


def test_a_second_person_gets_every_fifth_answer_of_the_first_one_and_others(peerage, tmp_path):
    path = write(tmp_path / "answers.csv", 60)
    peerage("label", path, "--person", "ann", stdin="p\n" * 40)
    peerage("label", path, "--person", "bob", stdin="f\n" * 60)
    by_person = {
        name: {o["id"] for o in labels_of(path) if o["person"] == name} for name in ("ann", "bob")
    }
    shared = by_person["ann"] & by_person["bob"]
    assert 0 < len(shared) < 20
    assert len(by_person["bob"] - by_person["ann"]) == 20


def test_the_audit_reads_the_labels_by_itself(peerage, tmp_path):
    path = write(tmp_path / "answers.csv")
    assert peerage("audit", path).returncode == 2  # nobody has labelled anything
    peerage("label", path, "--person", "ann", stdin="p\n" * 30)
    document = json.loads(peerage("audit", path, "--json").stdout)
    (card,) = document["against_people"]
    assert (card["judge"], card["n"], card["n_judged"]) == ("judge", 30, 60)
    assert card["table"]["both_pass"] + card["table"]["false_fail"] == 30


def test_a_file_of_labels_that_was_written_by_something_else_is_refused(peerage, tmp_path):
    path = write(tmp_path / "answers.csv")
    other = tmp_path / "answers.csv.labels.csv"
    other.write_text("id,grade\nq1,5\n")
    refused = peerage("label", path, stdin="p\n")
    assert (refused.returncode, other.read_text()) == (2, "id,grade\nq1,5\n")
    assert "lacks label" in refused.stderr
    other.write_text("id,label,reason,person,at\nq1,maybe,,ann,\n")
    assert "line 2" in peerage("label", path, stdin="p\n").stderr


def test_answers_that_the_table_has_labels_for_come_again_only_now_and_then(peerage, tmp_path):
    path = tmp_path / "answers.csv"
    labels = ["pass" if i < 30 else "" for i in range(40)]
    lines = [f"q{i},Answer {i}.,{label},1\n" for i, label in enumerate(labels)]
    path.write_text("".join(["id,answer,human,judge\n", *lines]))
    peerage("label", path, "--person", "ann", stdin="p\n" * 40)
    own = {one["id"] for one in labels_of(path)}
    assert {f"q{i}" for i in range(30, 40)} <= own
    assert len(own) < 25
