"""The exit code never says yes where nobody did."""

import json
from itertools import product

import pytest

from peerage.doors.cli.session_commands import exit_code
from peerage.types import Query, Session, Verdict

VERDICTS = [
    None,
    *(
        Verdict(kind, "text", approved=yes)
        for kind, yes in product(("binary", "first_ranked", "synthesis"), (True, False, None))
    ),
]


def ended(status, verdict):
    return Session("id", Query("Ship it?"), status=status, verdict=verdict)


@pytest.mark.parametrize("verdict", VERDICTS, ids=str)
@pytest.mark.parametrize("status", ["done", "no_quorum", "", "failed"])
def test_a_gate_is_open_only_on_a_yes(status, verdict):
    code = exit_code(ended(status, verdict), "binary")
    assert (code == 0) == (status == "done" and verdict is not None and verdict.approved is True)
    decided = status == "done" and verdict is not None and verdict.approved is not None
    assert code in ((0, 1) if decided else (3,))


def test_what_is_no_gate_needs_no_yes():
    assert exit_code(ended("done", Verdict("synthesis", "text")), "synthesis") == 0
    assert exit_code(ended("done", None), "none") == 0


def test_doctor_says_no_where_there_is_no_configuration_to_read(at_once, tmp_path):
    (tmp_path / "peerage.toml").write_text("[council]\nno_such_key = 1\n")
    done = at_once("doctor", "--json")
    assert done.returncode == 1
    assert not json.loads(done.stdout)["checks"][0]["ok"]


def test_doctor_lists_several_mistakes_of_a_file_line_by_line(at_once, tmp_path):
    (tmp_path / "peerage.toml").write_text("[council]\nno_such_key = 1\nnor_this = 2\n")
    shown = at_once("doctor").stdout
    assert "\\n" not in shown
    told = [line for line in shown.splitlines() if "no_such_key" in line or "nor_this" in line]
    assert len(told) == 2


@pytest.mark.parametrize("folder", ["/proc", "no_such_folder"])
def test_doctor_says_that_a_store_cannot_be_made(at_once, panel, folder):
    panel([{"name": name, "provider": "simulated"} for name in "ab"])
    done = at_once("doctor", "--store", f"sqlite:///{folder}/x.db", "--json")
    assert done.returncode == 1
    store = next(one for one in json.loads(done.stdout)["checks"] if one["what"] == "store")
    assert not store["ok"]
    assert "cannot be created" in store["finding"]


def test_the_audit_of_one_session_can_fail_too(peerage, panel):
    """`--fail-on` is not forgotten where a session is named, and refused where it means nothing."""
    panel([{"name": name, "provider": "simulated"} for name in "abc"], seed=7)
    session = json.loads(peerage("ask", "Why?", "--json").stdout)["id"]
    findings = json.loads(peerage("audit", "--session", session, "--json").stdout)["findings"]
    found = any(one["status"] in ("evidence", "indicator") for one in findings)
    done = peerage("audit", "--session", session, "--fail-on", "indicator")
    assert done.returncode == (1 if found else 0)
    assert peerage("audit", "--session", session, "--fail-on", "nothing").returncode == 2
