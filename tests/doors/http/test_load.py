"""A server on SQLite under load from all sides: it answers, keeps everything, and scores right."""

from pathlib import Path

import pytest

from tests.shared.load import LoadPlan, run_load


@pytest.mark.slow
def test_a_server_under_load_neither_hangs_nor_loses_anything(tmp_path: Path) -> None:
    plan = LoadPlan(n_sessions=40, n_viewers=10, n_opinions=5_000, n_webhooks=5)
    figures = run_load(tmp_path, plan)
    assert len(set(figures.session_ids)) == plan.n_sessions
    assert figures.n_scored > 0
    assert min(figures.n_pages, figures.n_exports, len(figures.opinions)) > 0
