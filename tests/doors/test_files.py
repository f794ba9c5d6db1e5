"""A file that a command writes is there whole, or the old one still is."""

import os
import threading
from pathlib import Path

import pytest

from peerage.doors.cli.screen import write_file
from peerage.errors import UsageError
from peerage.imports.store_folders import export

NOT_READ = None  # a store that an export does not come to read


@pytest.fixture
def nobody(tmp_path):
    """Lets a test go on as a user who owns nothing: the rights of files do not bind root."""
    root = os.geteuid() == 0
    tmp_path.chmod(0o555)
    if root:
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(0o755)
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)
    tmp_path.chmod(0o755)


def writes(text):
    return lambda path: path.write_text(text)


def fails_halfway(path):
    path.write_text("half")
    raise OSError(28, "No space left on device")


def test_a_file_is_not_lost_when_writing_it_fails(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(UsageError, match="No space left"):
        write_file(page, fails_halfway)
    assert page.read_text() == "old"
    assert list(tmp_path.iterdir()) == [page]


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    page = tmp_path / "page.html"
    meet = threading.Barrier(2)

    def slowly(text):
        def write(path):
            with path.open("w") as out:
                out.write(text[:1])
                meet.wait(10)
                out.write(text[1:])

        return write

    texts = ("a" * 1000, "b" * 1000)
    writers = [threading.Thread(target=write_file, args=(page, slowly(text))) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert page.read_text() in texts
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(
    "place", ["/", ".", "", "none/page.html", "x" * 300, "a\0b", "/proc/x.html"]
)
def test_where_nothing_can_be_written_is_said(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        write_file(Path(place), writes("new"))
    assert not list(tmp_path.iterdir())


def test_a_link_stays_a_link_and_a_mode_a_mode(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", writes("new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    write_file(Path(os.devnull), writes("new"))
    assert not Path(os.devnull).is_file()


def test_a_folder_that_cannot_be_written_to_is_said_and_nothing_is_left(tmp_path, nobody):
    with pytest.raises(UsageError, match=r"page.html: cannot be written: Permission denied\."):
        write_file(tmp_path / "page.html", writes("new"))
    with pytest.raises(UsageError, match=r"out: cannot be written: Permission denied\."):
        export(NOT_READ, tmp_path / "deep" / "out")
    assert not list(tmp_path.iterdir())
