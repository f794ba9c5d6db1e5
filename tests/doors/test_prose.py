"""Markdown of models as HTML that pages accept."""

import re

import pytest

from peerage.doors.render.prose import prose


def test_tables_are_aligned_by_classes():
    html = prose("| a | b |\n|--:|:-:|\n| 1 | 2 |")
    assert "style=" not in html
    assert '<td class="right">1</td>' in html


@pytest.mark.parametrize("text", ["$x^2$", r"\(x^2\)", "$$x^2$$", "\\[\nx^2\n\\]"])
def test_formulas_become_mathml(text):
    assert re.search(r"<math display=\"(inline|block)\">.*<msup>", prose(text))


@pytest.mark.parametrize("text", ["It costs $5 or $10.", "`$x$`", "$ x $", "between $5–$10"])
def test_prices_and_code_are_not_formulas(text):
    assert "<math" not in prose(text)


@pytest.mark.parametrize(
    "tex",
    [
        r"\href{javascript:alert(1)}{x}",
        r"\text{<script>alert(1)</script>}",
        r"\style{color:red}{x}",
        r"\text{&lt;script&gt;}",
        r"\frac{1",
        "{" * 300,
        r"\begin{matrix}",
        "^",
        "&",
    ],
)
def test_hostile_formulas_have_no_effect(tex):
    html = prose(f"$${tex}$$")
    assert "<script" not in html
    assert not re.search(r"<[^>]*\s(href|style|on\w+)=", html)


def test_code_is_highlighted_by_classes_and_escaped():
    html = prose('```python\ndef f(): return "<b>"\n```')
    assert '<span class="hl-keyword">def</span>' in html
    assert "<b>" not in html
    assert "&lt;b&gt;" in prose("```nosuchlanguage\n<b>\n```")
