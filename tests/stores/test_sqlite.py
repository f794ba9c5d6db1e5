"""The embedded store: it refuses what is not its own, and leaves it alone."""

import sqlite3

import pytest

from peerage.errors import PeerageError
from peerage.stores import StoreError, open_store


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 500)
    with pytest.raises(StoreError, match="not a store"):
        open_store(f"sqlite:///{path}")


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'p.db'}"
    open_store(url)
    db = sqlite3.connect(tmp_path / "p.db")
    db.execute("PRAGMA user_version = 999")
    db.close()
    with pytest.raises(StoreError, match="version 999"):
        open_store(url)


@pytest.mark.parametrize("bad", ["peerage.db", "sqlite:///", "mysql://x"])
def test_what_is_no_store_is_refused_with_a_hint(bad):
    with pytest.raises(PeerageError, match=r"store|file|sqlite"):
        open_store(bad)
