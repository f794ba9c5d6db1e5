"""Markdown of models and people as safe HTML: tables, highlighted code, formulas as MathML."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from html import unescape
from itertools import takewhile
from typing import Any
from xml.etree import ElementTree

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup

from peerage.doors.render.highlighting import highlight_code
from peerage.doors.render.page_work import CELL_WORK, page_work
from peerage.messages import step_length, step_title, steps_of
from peerage.text import visible
from peerage.types import Message

MAX_FORMULA = 1_000  # characters
AS_WRITTEN = "This text is shown as it was written: it is too long to be formatted here."
FORMULA_MARKS = (("$$", "$$", True), ("\\[", "\\]", True), ("\\(", "\\)", False), ("$", "$", False))
ENVIRONMENTS = re.compile(
    r"(\\(?:begin|end))\{(?:aligned|align|split|gathered|gather\*?|equation\*?)\}"
)
ALIGNED = re.compile(r"text-align:\s*(left|right|center)")
MATH = "{http://www.w3.org/1998/Math/MathML}"
# The elements of MathML that cannot contain links, load files or set styles.
MATH_TAGS = frozenset(
    (
        *("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot"),
        *("msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts"),
        *("mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose", "mprescripts"),
    )
)
MATH_ATTRIBUTES = frozenset(
    (
        *("display", "displaystyle", "mathvariant", "stretchy", "fence", "separator", "form"),
        *("accent", "accentunder", "movablelimits", "symmetric", "largeop", "linethickness"),
        *("lspace", "rspace", "width", "height", "depth", "columnalign", "minsize", "maxsize"),
    )
)


def prose(text: str) -> Markup:
    """Return Markdown as HTML; tags, links and pictures in the text are not rendered.

    A text is shown as it was written if it has more marks than the page has work left for.
    """
    shown = visible(text, multiline=True)
    left = page_work()
    if not left.pay_text(shown):
        return Markup('<p class="aside">{}</p>\n<pre dir="auto">{}</pre>\n').format(
            AS_WRITTEN, shown
        )
    return Markup(_markdown_reader().render(shown, {"left": left}))  # noqa: S704 - escaped


def prose_answer(text: str, messages: Sequence[Message] = ()) -> Markup:
    """Return an answer as HTML: the assistant's texts open, and each other step folded."""
    if not messages:
        return prose(text)
    return Markup("\n").join(_step_html(*step) for step in steps_of(messages))


def _step_html(kind: str, tool: str, text: str) -> Markup:
    if kind == "assistant":
        return prose(text)
    title, length = visible(step_title(kind, tool)), step_length(kind, text)
    head = Markup("<summary>{} <small>{}</small></summary>").format(title, length)
    body = Markup('<pre tabindex="0">{}</pre>').format(visible(text, multiline=True))
    return Markup('<details class="toolstep">{}{}</details>').format(head, body)


@cache
def _markdown_reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False})
    reader.enable("table").disable(["link", "image", "autolink", "html_block", "html_inline"])
    reader.block.ruler.at("table", _read_table, {"alt": ["paragraph", "reference"]})
    reader.inline.ruler.before("escape", "formula", _read_formula)
    reader.add_render_rule("fence", _render_fence)
    reader.add_render_rule("formula", _render_formula)
    for name in ("th_open", "td_open"):
        reader.add_render_rule(name, _render_cell)
    return reader


def _read_table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read a table, if the page has work left for its cells; else no table of this text is read.

    A row of one mark has as many cells as the header, so a short text can be a huge table.
    """
    left = state.env["left"]
    if state.env.get("no_tables") or not table(state, start_line, end_line, True):
        return False
    if silent:
        return True
    n_columns = state.getLines(start_line, start_line + 1, 0, False).count("|") + 1
    is_filled = (not state.isEmpty(line) for line in range(start_line, end_line))
    n_rows = sum(1 for _ in takewhile(bool, is_filled))
    if not left.pay(CELL_WORK * n_columns * n_rows):
        state.env["no_tables"] = True
        return False
    return table(state, start_line, end_line, False)


def _render_cell(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    """Render the start of a cell with its alignment as a class: pages allow no style attributes."""
    token = tokens[index]
    aligned = ALIGNED.search(str(token.attrs.pop("style", "")))
    if aligned and aligned[1] != "left":
        token.attrs["class"] = aligned[1]
    return renderer.renderToken(tokens, index, options, env)


# -- code ----------------------------------------------------------------------------------------


def _render_fence(
    renderer: RendererHTML,  # noqa: ARG001 - as the renderer calls it
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,  # noqa: ARG001
    env: MutableMapping[str, Any],  # noqa: ARG001
) -> str:
    language = tokens[index].info.strip().split(" ")[0]
    return f'<pre dir="ltr"><code>{highlight_code(tokens[index].content, language)}</code></pre>\n'


# -- formulas ------------------------------------------------------------------------------------


def _read_formula(state: StateInline, silent: bool) -> bool:
    """Read a formula, `$…$`, `$$…$$`, `\\(…\\)` or `\\[…\\]`; a price such as $5 is not one."""
    for start, end, is_block in FORMULA_MARKS:
        if not state.src.startswith(start, state.pos):
            continue
        inside = state.pos + len(start)
        close = state.src.find(end, inside, inside + MAX_FORMULA)
        content = state.src[inside:close] if close > inside else ""
        if not content.strip() or (
            start == "$" and not _is_dollar_formula(state.src, inside, close)
        ):
            return False
        if not silent:
            token = state.push("formula", "math", 0)
            token.content, token.markup = content.strip(), start
            token.block = is_block
        state.pos = close + len(end)
        return True
    return False


def _is_dollar_formula(text: str, inside: int, close: int) -> bool:
    """Return whether two dollar signs enclose a formula rather than being two prices."""
    after = text[close + 1 : close + 2]
    return not (text[inside].isspace() or text[close - 1].isspace() or after.isalnum())


def _render_formula(
    renderer: RendererHTML,  # noqa: ARG001 - as the renderer calls it
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,  # noqa: ARG001
    env: MutableMapping[str, Any],
) -> str:
    token = tokens[index]
    drawn = None
    if env["left"].pay_formula(token.content):
        drawn = formula(token.content, is_block=token.block)
    return str(Markup("<code>{}</code>").format(token.content) if drawn is None else drawn)


def formula(tex: str, *, is_block: bool = False) -> Markup | None:
    """Return a TeX formula as MathML, or None if it cannot be read."""
    from latex2mathml import converter, exceptions

    own = (one for one in vars(exceptions).values() if isinstance(one, type))
    faults: tuple[type[Exception], ...] = (
        *(one for one in own if issubclass(one, Exception)),
        *(LookupError, ValueError, TypeError, AttributeError, StopIteration, RuntimeError),
    )
    tex = ENVIRONMENTS.sub(r"\1{align*}", tex)
    try:
        tree = converter.convert_to_element(tex)
    except faults:
        return None
    shown = _copy_allowed(tree)
    shown.set("display", "block" if is_block else "inline")
    return Markup(ElementTree.tostring(shown, encoding="unicode"))  # noqa: S704 - allowed parts


def _copy_allowed(element: ElementTree.Element) -> ElementTree.Element:
    """Copy an element with its allowed attributes; if its tag is not allowed, it becomes `mrow`."""
    tag = element.tag.removeprefix(MATH)
    copied = ElementTree.Element(tag if tag in MATH_TAGS else "mrow")
    copied.attrib.update({n: v for n, v in element.attrib.items() if n in MATH_ATTRIBUTES})
    copied.text, copied.tail = _math_text(element.text), _math_text(element.tail)
    copied.extend([_copy_allowed(child) for child in element])
    return copied


def _math_text(text: str | None) -> str | None:
    return visible(unescape(text)) if text else text
