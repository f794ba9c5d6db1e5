"""A file with many mistakes is told of ten at once, in the order of its lines."""

import re

import pytest

from peerage.config import load
from peerage.errors import MAX_LISTED, ConfigError

FILE = """\
store = "nonsense"
colour = "red"
[council]
seed = "x"
chair = "nobody"
rubric = "no such"
[[seat]]
name = "a"
temperature = 9
base_url = "ftp://x"
[[seat]]
name = "A"
model = "m"
timeout_s = "long"
[audit]
length_correlation = 7
[community]
scale = [1]
"""
WRONG = (1, 2, 4, 5, 6, 7, 9, 10, 12, 14, 16, 18)


def told(tmp_path, text):
    """What is wrong with a file, line by line of the error, and the lines of the file."""
    (tmp_path / "peerage.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "peerage.toml", environ={})
    lines = str(refused.value).splitlines()
    return lines, [int(n) for n in re.findall(r"line (\d+)", str(refused.value))]


def test_ten_problems_are_told_at_once_in_the_order_of_their_lines(tmp_path):
    lines, numbers = told(tmp_path, FILE)
    assert lines[0] == "configuration: 12 things are wrong."
    assert numbers == list(WRONG[:MAX_LISTED])
    assert lines[-1].strip() == "and 2 more."


def test_the_rest_is_told_once_those_are_mended(tmp_path):
    text = FILE.splitlines()
    for line in WRONG[:MAX_LISTED]:
        text[line - 1] = ""
    text[6], text[11] = '[[seat]]\nmodel = "m"', 'name = "b"'
    _, numbers = told(tmp_path, "\n".join(text))
    assert numbers == [n + 1 for n in WRONG[MAX_LISTED:]]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[[seat]]\nname = 7\n[[seat]]\nname = "b"\n', "[[seat]] 2: a seat of the provider"),
        ('[[seat]]\nmodel = "m"\n[[seat]]\nname = "b"\n', "[[seat]] 2: a seat of the provider"),
        ('[[seat]]\nname = "a"\nmodel = 3\nroles = []\n', "no role is given"),
        (
            "[rubric.x]\n[rubric.y]\nweights = { accuracy = 0.5 }\n",
            "[rubric.y.weights]: the weights must sum to 1",
        ),
        ('[rubric.x]\nweights = { accuracy = "a" }\n[community]\nscale = [1]\n', "scale: must"),
        ("seat = 3\n[community]\nscale = [1]\n", "scale: must be two or more numbers"),
    ],
)
def test_a_broken_value_hides_no_other_mistake(tmp_path, table, words):
    lines, _ = told(tmp_path, table)
    assert lines[0] == "configuration: 2 things are wrong."
    assert words in lines[2]


@pytest.mark.parametrize(
    "text",
    [
        '[council]\nchair = "b"\n[[seat]]\nname = "a"\nmodel = "m"\n[[seat]]\nmodel = "m"\n',
        '[council]\nrubric = "x"\n[rubric.x]\nweights = 3\n',
        '[[seat]]\nname = "a"\nmodel = 3\n',
    ],
)
def test_what_follows_from_a_broken_value_is_not_a_second_mistake(tmp_path, text):
    lines, _ = told(tmp_path, text)
    assert len(lines) == 1


def test_what_variables_and_flags_say_comes_after_the_file(tmp_path):
    (tmp_path / "peerage.toml").write_text("[community]\nscale = [1]\n")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "peerage.toml", environ={"PEERAGE_SEED": "x"})
    first, second = str(refused.value).splitlines()[1:]
    assert "line 2" in first
    assert "PEERAGE_SEED" in second
