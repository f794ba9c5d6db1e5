"""The audit of a file with labels begins with the judge against people."""

from __future__ import annotations

import csv
import json


def write(path, n):
    """A table in which the judge passes half of what people fail."""
    human, judge = ("pass", "fail"), ("pass", "fail", "pass", "pass")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "human", "judge"])
        table.writerows([f"q{i}", human[i % 2], judge[i % 4]] for i in range(n))
    return path


def test_the_sentence_is_two_commands_away_at_the_command_line(peerage, tmp_path):
    path = write(tmp_path / "one_judge.csv", 100)
    done = peerage("audit", str(path))
    assert done.stdout.startswith("- judge against people: do not rely on it alone. It passes 50%")
    document = json.loads(peerage("audit", str(path), "--json").stdout)
    (card,) = document["against_people"]
    assert card["table"] == {"both_pass": 50, "false_pass": 25, "false_fail": 0, "both_fail": 25}
    assert card["advice"] == "do_not_rely_on"


def test_a_named_judge_without_a_file_says_what_to_do(peerage):
    done = peerage("audit", "--judge", "gpt")
    assert done.returncode == 2
    assert "--judge names columns of a file" in done.stderr


def test_human_and_reviewer_name_columns_too(peerage, tmp_path):
    path = write(tmp_path / "odd.csv", 100)
    text = path.read_text(encoding="utf-8").replace("human,judge", "alice,scorer")
    path.write_text(text, encoding="utf-8")
    words = ("audit", path, "--human", "alice", "--reviewer", "scorer", "--json")
    (card,) = json.loads(peerage(*words).stdout)["against_people"]
    assert (card["judge"], card["n"]) == ("scorer", 100)
