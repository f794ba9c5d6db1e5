"""A passport is reproduced from the log to the byte, or refused with what differs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from peerage import config
from peerage.errors import InputError, PeerageError
from peerage.imports.store_folders import export, take_export
from peerage.reports.passports import (
    canonical_bytes,
    load_key,
    make_passport,
    open_envelope,
    verify_passport,
)
from peerage.stores import open_store
from tests.small_seasons import hold_season

SETTINGS = config.Settings()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of one season, and the passport of one of its judges."""
    folder = tmp_path_factory.mktemp("passports")
    hold_season(f"sqlite:///{folder}/first.db", "abc", n=4)
    store = open_store(f"sqlite:///{folder}/first.db")
    key, is_new = load_key(folder / "key.pem")
    assert is_new
    assert (folder / "key.pem").stat().st_mode & 0o077 == 0
    passport = make_passport(store, SETTINGS, "a", key)
    (folder / "a.json").write_bytes(canonical_bytes(passport))
    return folder


def test_the_same_store_and_an_exported_copy_reproduce_it(folder: Path, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{folder}/first.db")
    data = (folder / "a.json").read_bytes()
    assert verify_passport(store, SETTINGS, data).status == "reproduced"
    export(store, tmp_path / "export")
    other = open_store(f"sqlite:///{tmp_path}/second.db")
    list(take_export(other, tmp_path / "export", lambda *_: None, SETTINGS.community.scale, {}))
    assert verify_passport(other, SETTINGS, data).status == "reproduced"


def test_one_changed_mark_in_the_log_is_refused_and_its_session_named(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "changed.db"
    with sqlite3.connect(folder / "first.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    with sqlite3.connect(copy) as log:
        rows = log.execute("SELECT rowid, session_id, body FROM events WHERE kind = 'reviewed'")
        row, session, body = rows.fetchone()
        changed = json.loads(body)
        label = next(iter(changed["review"]["marks"]))
        marks = changed["review"]["marks"][label]
        marks["accuracy"] = 11 - marks["accuracy"]
        log.execute("UPDATE events SET body = ? WHERE rowid = ?", (json.dumps(changed), row))
    result = verify_passport(
        open_store(f"sqlite:///{copy}"), SETTINGS, (folder / "a.json").read_bytes()
    )
    assert result.status == "refused"
    assert session in result.differences[0]


def test_a_passport_of_another_store_says_so(folder: Path, tmp_path: Path) -> None:
    hold_season(f"sqlite:///{tmp_path}/other.db", "abc", season="y", n=1)
    store = open_store(f"sqlite:///{tmp_path}/other.db")
    result = verify_passport(store, SETTINGS, (folder / "a.json").read_bytes())
    assert result.status == "refused"
    assert "another store" in result.differences[0]


def test_a_changed_envelope_another_key_and_rubbish_are_refused(folder: Path) -> None:
    data = (folder / "a.json").read_bytes()
    envelope = json.loads(data)
    envelope["payload"] = envelope["payload"][:-8] + "AAAAAAA="
    for broken in (json.dumps(envelope).encode(), b"[]", b"not JSON", b"{}"):
        with pytest.raises(InputError):
            open_envelope(broken)
    with pytest.raises(InputError, match="another key"):
        open_envelope(data, b"0" * 32)


def test_an_unknown_reviewer_has_no_passport(folder: Path) -> None:
    store = open_store(f"sqlite:///{folder}/first.db")
    key, _ = load_key(folder / "key.pem")
    with pytest.raises(PeerageError, match="nobody"):
        make_passport(store, SETTINGS, "nobody", key)
