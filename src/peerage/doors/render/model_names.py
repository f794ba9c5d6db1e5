"""Model names on pages: separate vendor, breaks between parts, short forms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection

from markupsafe import Markup, escape

from peerage.doors.render.layout import short_names
from peerage.text import visible

ROOM = 28  # columns of a short name
SEPARATORS = re.compile(r"(?<=[/\-:_])|(?<=\.)(?!\d)")  # breaks; 4.5 stays whole
DATE = re.compile(r"[-@](?:20\d\d-?\d\d-?\d\d|\d\d-20\d\d)(?![\d-])")


def name_parts(name: str) -> tuple[str, str, str]:
    """Return the vendor with its slash, the model, and the variant with its colon.

    Parts that a name does not have are empty: the three joined are always the name.
    """
    vendor, slash, rest = name.rpartition("/")
    model, colon, variant = rest.partition(":")
    if not model or " " in vendor:  # a sentence with a slash is not a vendor's model
        return "", name, ""
    return vendor + slash, model, colon + variant


def _drop_date(name: str) -> str:
    _, model, variant = name_parts(name)
    return DATE.sub("", model) + variant


def _drop_vendor(name: str) -> str:
    _, model, variant = name_parts(name)
    return model + variant


FORMS: tuple[Callable[[str], str], ...] = (_drop_date, _drop_vendor, str)  # the shortest first


def clear_names(names: Collection[str], room: int = ROOM) -> dict[str, str]:
    """Return a short form of each name; no two forms of the collection are equal.

    The vendor and a date are left out if the name then still differs from all others. A name that
    is still longer than `room` is shortened in its middle.
    """
    forms: dict[str, str] = {}
    for form in FORMS:
        waiting = [name for name in dict.fromkeys(names) if name not in forms]
        counts = Counter([*map(form, waiting), *forms.values()])
        forms |= {name: form(name) for name in waiting if form(name) and counts[form(name)] == 1}
    if len(forms) < len(set(names)):  # a name equals another one's short form
        return {name: name for name in names}
    short = short_names(set(forms.values()), room)
    return {name: short[forms[name]] for name in forms}


def model_name(name: str | None, short: str = "") -> Markup:
    """Return a model's name as HTML: small vendor, model, variant, with breaks between parts only.

    With `short` the page shows that form; the full name is in the title and for screen readers.
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
