"""The quick form of every `./dev prove NAME`: each line of its table is met."""

import json

import pytest

from prove.__main__ import Kind, main, names, prove_one
from prove._audit import line_of


@pytest.mark.slow
@pytest.mark.needs("postgres")
@pytest.mark.parametrize("name", names())
def test_the_quick_form_meets_every_line(name, capfd):
    is_met = prove_one(Kind(name), quick=True)
    assert is_met, capfd.readouterr().out


def test_an_unknown_kind_is_exit_2_and_says_what_there_is(capsys):
    assert main(["dance"]) == 2
    assert "attack, crash, fuzz, load, release, stats" in capsys.readouterr().err


def test_the_audit_of_dependencies_fails_on_a_vulnerability_and_says_what_it_could_not_check():
    skipped = {"name": "b", "skip_reason": "not found"}
    clean = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1"}]}

    def line(*packages):
        return line_of(json.dumps({"dependencies": packages}), "")

    assert (line(clean).ok, line(clean).measured) == (True, "none found")
    assert (line(bad, skipped).ok, line(bad).measured) == (False, "c 2: CVE-1")
    assert line(clean, skipped).measured == "none found; 1 of 2 not checked"
    for unknown in (line(skipped), line_of("", "Traceback\nConnectionError: no such host")):
        assert (unknown.ok, unknown.n) == (True, 0)
        assert "not checked" in unknown.measured
