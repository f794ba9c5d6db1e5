"""The notebook docs/tour.ipynb: its cells run in their order, and its results draw themselves."""

import ast
import builtins
import json
from pathlib import Path

import pytest

import peerage
from peerage.boards import Board
from peerage.errors import MissingExtraError, UsageError

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tour.ipynb"
CELLS = [
    "".join(cell["source"])
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def run_cell(text, names):
    """Run a cell as a notebook does; return the value of its last expression, or None."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own cells
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    return tmp_path


@pytest.mark.slow
def test_the_tour_runs_and_shows_what_it_says(folder, capsys):
    assert len(CELLS) <= 10
    names = {}
    values = [run_cell(cell, names) for cell in CELLS]
    assert "<table>" in names["board"]._repr_html_()
    assert "<blockquote>" in names["session"]._repr_html_()
    charts = [value for value in values if hasattr(value, "get_yticklabels")]
    assert len(charts) == 2
    assert [text.get_text() for text in charts[0].get_yticklabels()] == [
        row["model"] for row in names["board"].rows
    ]
    named = {
        (one.metric, one.subject) for one in names["audit"].findings if one.status == "evidence"
    }
    assert ("self_preference", "magpie") in named
    without, with_own = (float(word) for word in capsys.readouterr().out.split() if word[0] == "0")
    assert with_own > without


def test_a_chart_says_what_it_needs_and_what_it_cannot_draw(monkeypatch):
    shares = {"share": [0.5], "share_low": [0.4], "share_high": [0.6]}
    board = Board("models", {"model": ["a"], **shares})
    with pytest.raises(UsageError, match="no interval to draw"):
        board.plot("model")
    with pytest.raises(UsageError, match="no finding of nothing"):
        peerage.Audit(()).plot("nothing")

    def without_matplotlib(name, *rest, plain=builtins.__import__):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("no", name="matplotlib")
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(MissingExtraError, match="a chart needs matplotlib"):
        board.plot()


def test_a_verdict_in_html_is_escaped():
    verdict = peerage.Verdict("synthesis", "<script>alert(1)</script>", by="<b>")
    assert "<script>" not in verdict._repr_html_()
    assert "&lt;b&gt;" in verdict._repr_html_()
