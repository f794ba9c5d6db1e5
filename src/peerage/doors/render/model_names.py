"""Model names on pages and terminals: a separate vendor, line breaks between parts, short forms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from os.path import commonprefix

from markupsafe import Markup, escape
from rich.cells import cell_len, chop_cells

from peerage.text import visible

ROOM = 28  # columns of the screen for a short name
SEPARATORS = re.compile(r"(?<=[/\-:_])|(?<=\.)(?!\d)")  # where a name may break; 4.5 stays whole
DATE = re.compile(r"[-@](?:20\d\d-?\d\d-?\d\d|\d\d-20\d\d)(?![\d-])")


def name_parts(name: str) -> tuple[str, str, str]:
    """Return the vendor with its slash, the model, and the variant with its colon.

    A part that the name does not have is empty, so the three joined are always the name.
    """
    vendor, slash, rest = name.rpartition("/")
    model, colon, variant = rest.partition(":")
    if not model or " " in vendor:  # a sentence with a slash is not a vendor's model
        return "", name, ""
    return vendor + slash, model, colon + variant


def drop_vendor(name: str) -> str:
    """Return a name without its vendor."""
    _, model, variant = name_parts(name)
    return model + variant


def drop_date(name: str) -> str:
    """Return a name without its vendor and the date of its release."""
    _, model, variant = name_parts(name)
    return DATE.sub("", model) + variant


FORMS: tuple[Callable[[str], str], ...] = (drop_vendor, drop_date)  # from longer to shorter


def name_forms(names: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the names in shorter and shorter forms; in each form all names are different.

    A name keeps a longer form if its shorter one would equal that of another name. Both sides of a
    pair such as `reviewer>candidate` are shortened.
    """
    sides = {name: name.split(">", 1) for name in names}
    forms = {part: part for parts in sides.values() for part in parts}
    yield {name: name for name in names}
    for form in FORMS:
        counts = Counter(map(form, forms))
        shorter = {part: form(part) for part in forms if counts[form(part)] == 1 and form(part)}
        if len(set((forms | shorter).values())) == len(forms):
            forms |= shorter
        whole = {name: ">".join(forms[part] for part in parts) for name, parts in sides.items()}
        if len(set(whole.values())) == len(whole):
            yield whole


def fitting_forms(names: Collection[str], room: int) -> dict[str, str]:
    """Return the longest forms of names that fit into `room` columns, else the shortest forms."""
    forms = {name: name for name in names}
    for forms in name_forms(names):
        if max(map(cell_len, forms.values()), default=0) <= room:
            break
    return forms


def left_off(short: Mapping[str, str]) -> set[str]:
    """Return, in words, which parts the short forms of names lack: a vendor, the date."""
    vendors, words = set(), set()
    for name, form in short.items():
        for whole, part in zip(name.split(">", 1), form.split(">", 1), strict=False):
            vendor, model, _ = name_parts(whole)
            vendors |= {vendor} if vendor and "/" not in part else set()
            words |= {"the date"} if DATE.search(model) and not DATE.search(part) else set()
    if len(vendors) > 1:
        vendors = {"the vendor"}
    return vendors | words


def clear_names(names: Collection[str], room: int = ROOM) -> dict[str, str]:
    """Return a short form of each name; no two forms of the collection are equal.

    The vendor and a date are left out if the name then still differs from all others. A name that
    is still longer than `room` is shortened in its middle.
    """
    *_, forms = name_forms(dict.fromkeys(names))
    short = short_names(set(forms.values()), room)
    return {name: short[form] for name, form in forms.items()}


def clear_winners(winners: Collection[str]) -> dict[str, str]:
    """Return the short form of each winner; several names of a tie are separated by commas."""
    by_winner = {one: one.split(", ") for one in winners}
    short = clear_names({name for names in by_winner.values() for name in names})
    return {one: ", ".join(short[name] for name in names) for one, names in by_winner.items()}


def short_names(names: Collection[str], room: int, dots: str = "…") -> dict[str, str]:
    """Return each name in at most `room` columns, or in more if names would look the same.

    Vendors are left out first, then dates. Then each name is cut in its middle, between its parts
    if possible; a pair such as `reviewer>candidate` is cut in the middle of both names.
    """
    bare = fitting_forms(names, room)
    longest = max(map(cell_len, bare.values()), default=0)
    singles = {text for text in bare.values() if ">" not in text}
    parts = {part for text in bare.values() if ">" in text for part in text.split(">", 1)}
    while room < longest:
        short = _cut_apart(singles, room, dots)
        half = _cut_apart(parts, (room - 1) // 2, dots)
        for text in set(bare.values()) - singles:
            cut = ">".join(half[part] for part in text.split(">", 1))
            short[text] = text if cell_len(text) <= room else cut
        if len(set(short.values())) == len(short):
            return {name: short[text] for name, text in bare.items()}
        room += max(1, room // 8)
    return bare


def _cut_apart(texts: Collection[str], room: int, dots: str) -> dict[str, str]:
    """Shorten each text between two parts; if two would look alike, cut them inside a part."""
    short = {text: _cut_between_parts(text, room, dots) for text in texts}
    for group in _alike(short):
        short |= {text: _cut(text, room, dots) for text in group}
    for group in _alike(short):
        at = len(commonprefix(group))  # noqa: RUF071 - compares characters, not path parts
        short |= {text: _cut_around(text, at, room, dots) for text in group}
    return short


def _alike(short: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of texts that share a short form."""
    groups: dict[str, list[str]] = {}
    for text, form in short.items():
        groups.setdefault(form, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def _cut_between_parts(text: str, room: int, dots: str) -> str:
    """Return a text shortened to the first and last parts that fit, or cut if too few fit."""
    if cell_len(text) <= room:
        return text
    parts = [part for part in SEPARATORS.split(text) if part]
    start, end, left = 0, len(parts), room - len(dots)
    while start < end:
        is_first = start <= len(parts) - end
        width = cell_len(parts[start] if is_first else parts[end - 1])
        if width > left:
            break
        left -= width
        start, end = (start + 1, end) if is_first else (start, end - 1)
    if not start or end == len(parts) or left > room // 3:
        return _cut(text, room, dots)
    return "".join(parts[:start]) + dots + "".join(parts[end:])


def _cut(text: str, room: int, dots: str) -> str:
    if cell_len(text) <= room:
        return text
    tail = room // 2
    return _start(text, room - tail - len(dots)) + dots + _end(text, tail)


def _cut_around(text: str, at: int, room: int, dots: str) -> str:
    """Return the beginning of a text, the characters around a place in it, and its end."""
    side = room // 4
    middle = _start(text[max(0, at - side // 2) :], room - 2 * side - 2 * len(dots))
    return _start(text, side) + dots + middle + dots + _end(text, side)


def _start(text: str, room: int) -> str:
    return next(iter(chop_cells(text, room)), "") if room > 0 else ""


def _end(text: str, room: int) -> str:
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= room:
        start -= 1
    return text[start:]


def model_name(name: str | None, short: str = "") -> Markup:
    """Return a model's name as HTML: small vendor, model, variant, with breaks between parts only.

    If `short` is given, the page shows that form; the full name is in the tooltip and for screen
    readers.
    """
    if name is None:
        return Markup("–")
    if short and short != name:
        return Markup(
            '<span class="model" title="{}"><span aria-hidden="true">{}</span>'
            '<span class="hidden">{}</span></span>'
        ).format(visible(name), _breakable(short), visible(name))
    vendor, model, variant = map(_breakable, name_parts(name))
    if not vendor and not variant:
        return Markup('<span class="model">{}</span>').format(model)
    small = Markup('<span class="vendor">{}</span>').format(vendor) if vendor else ""
    dim = Markup('<span class="variant">{}</span>').format(variant) if variant else ""
    return Markup('<span class="model">{}{}{}</span>').format(small, model, dim)


def _breakable(text: str) -> Markup:
    parts = SEPARATORS.split(visible(text))
    return Markup("<wbr>").join(escape(part) for part in parts if part)
