"""The quick form of every `./dev prove NAME`: each line of its table is met."""

import pytest

from prove.__main__ import Kind, main, names, prove_one


@pytest.mark.slow
@pytest.mark.needs("postgres")
@pytest.mark.parametrize("name", names())
def test_the_quick_form_meets_every_line(name, capfd):
    is_met = prove_one(Kind(name), quick=True)
    assert is_met, capfd.readouterr().out


def test_an_unknown_kind_is_exit_2_and_says_what_there_is(capsys):
    assert main(["dance"]) == 2
    assert "attack, crash, fuzz, load, release, stats" in capsys.readouterr().err
