"""A board that is asked for during an import is the board of before or the board of after."""

from pathlib import Path

import pytest

from tests.shared.boards_during_import import boards_during_imports


@pytest.mark.slow
def test_every_board_during_a_large_import_is_of_before_or_of_after(
    store_url: str, tmp_path: Path
) -> None:
    urls = iter([store_url])
    counts = boards_during_imports(lambda: next(urls), tmp_path, n_boards=1, n_rows=200_000)
    assert counts.n_before > 0
    assert counts.n_after > 0
