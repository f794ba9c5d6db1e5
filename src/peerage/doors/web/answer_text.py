"""Markdown of models and people as HTML in which nothing runs and nothing is fetched.

Raw HTML is shown as text. A picture becomes a line that names it, and a link becomes its words
with the address beside them: neither is asked for unless a person copies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from peerage.text import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_RENDERED = 200_000  # characters; more is shown as plain text, cut
MAX_ADDRESS = 200  # characters of a link that are shown


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = lambda _: True  # type: ignore[method-assign]  # shown as text, never followed
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("link_close", _link_close)
    parser.add_render_rule("heading_open", lambda *_: '<p class="heading">')
    parser.add_render_rule("heading_close", lambda *_: "</p>\n")
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    parser.add_render_rule("th_open", lambda *_: "<th>")
    parser.add_render_rule("td_open", lambda *_: "<td>")
    return parser


def safe_html(text: str) -> Markup:
    """The HTML of a text in Markdown."""
    shown = visible(text, multiline=True)
    if len(shown) > MAX_RENDERED:
        return Markup(f'<pre class="plain">{escape(shown[:MAX_RENDERED])} …</pre>')  # noqa: S704
    return Markup(_markdown().render(shown))  # noqa: S704 - its raw HTML is off


def _image(_: Any, tokens: Sequence[Token], i: int, *__: Any) -> str:
    return f'<span class="unfetched">[picture: {_words(tokens[i].content)}{_address(tokens[i], "src")}]</span>'


def _link_open(*_: Any) -> str:
    return '<span class="unfetched">'


def _link_close(_: Any, tokens: Sequence[Token], i: int, *__: Any) -> str:
    opened = next(one for one in reversed(tokens[:i]) if one.type == "link_open")
    return f"{_address(opened, 'href')}</span>"


def _words(text: str) -> str:
    return escape(text)


def _address(token: Token, attribute: str) -> str:
    address = str(token.attrs.get(attribute, ""))
    cut = address if len(address) <= MAX_ADDRESS else f"{address[:MAX_ADDRESS]}…"
    return f" <small>({escape(cut)})</small>" if cut else ""
