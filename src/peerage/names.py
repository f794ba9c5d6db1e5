"""Names of people, seats and candidates: which look alike, and which are reserved.

Two names look alike if they differ only in case, blanks, invisible characters, forms of one
character (full width), or letters of other scripts that are drawn the same (Cyrillic, Greek).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from peerage.errors import UsageError, shown

# Names that stand for something else where names are shown: the caller without a token, the
# presets for clients, a chair's own prompt, and people whose names are not published.
RESERVED = re.compile(r"local|quick|debate|chair:.*|person\d+", re.DOTALL)  # of a plain key

# Characters that are drawn like one of ASCII, by that character.
LOOK_ALIKES = {
    "a": "\u0430\u03b1\u0251\u1d00",
    "b": "\u0299",
    "c": "\u0441\u03f2\u1d04",
    "d": "\u0501\u1d05",
    "e": "\u0435\u1d07",
    "g": "\u0261\u0581\u0262",
    "h": "\u04bb\u0570\u029c",
    "i": "\u0456\u03b9\u0131\u0269\u026a",
    "j": "\u0458\u03f3\u0575\u1d0a",
    "k": "\u043a\u03ba\u1d0b",
    "l": "\u04cf\u01c0\u029f",
    "m": "\u1d0d",
    "n": "\u03b7\u0578\u0274",
    "o": "\u043e\u03bf\u0585\u1d0f",
    "p": "\u0440\u03c1\u1d18",
    "q": "\u051b\u0566",
    "r": "\u0433\u0280",
    "s": "\u0455\ua731",
    "t": "\u1d1b",
    "u": "\u03c5\u057d\u1d1c",
    "v": "\u0475\u03bd\u1d20",
    "w": "\u051d\u1d21",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af\u03b3\u028f",
    "z": "\u1d22",
    "A": "\u0410\u0391\u13aa",
    "B": "\u0412\u0392\u13f4",
    "C": "\u0421\u03f9\u13df",
    "D": "\u13a0",
    "E": "\u0415\u0395\u13ac",
    "G": "\u050c\u13c0",
    "H": "\u041d\u0397\u13bb",
    "I": "\u0406\u0399\u04c0\u0196",
    "J": "\u0408\u037f\u13ab",
    "K": "\u041a\u039a\u13e6",
    "L": "\u053c\u13de",
    "M": "\u041c\u039c\u13b7",
    "N": "\u039d",
    "O": "\u041e\u039f\u0555",
    "P": "\u0420\u03a1\u13e2",
    "Q": "\u051a",
    "R": "\u13a1",
    "S": "\u0405\u054f\u13da",
    "T": "\u0422\u03a4\u13a2",
    "U": "\u054d",
    "V": "\u0474\u13d9",
    "W": "\u051c\u13d4",
    "X": "\u0425\u03a7",
    "Y": "\u0423\u03a5\u04ae",
    "Z": "\u0396\u13c3",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "'": "\u2018\u2019\u02bc\u02b9",
}
AS_ASCII = {ord(other): plain for plain, others in LOOK_ALIKES.items() for other in others}
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def keys_of(name: str) -> frozenset[str]:
    """Return the keys of a name: names that look alike have one in common.

    The plain key makes different cases of one script equal; in the other key, letters of other
    scripts are those of ASCII that look the same.
    """
    if name.isascii():
        return frozenset((_key(name),))
    text = INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    text = "".join(one for one in text if unicodedata.category(one) != "Cf")
    return frozenset((_key(text), _key(text.translate(AS_ASCII))))


def _key(text: str) -> str:
    return "".join(text.split()).casefold()


def is_reserved(name: str) -> bool:
    """Return whether a name, or one that looks like it, stands for something else."""
    return any(RESERVED.fullmatch(key) for key in keys_of(name))


def alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of different names that look alike, each sorted."""
    distinct = sorted(set(names))
    group_by_key: dict[str, list[str]] = {}
    for name in distinct:
        keys = keys_of(name)
        groups = [group_by_key[key] for key in sorted(keys) if key in group_by_key]
        group = groups[0] if groups else []
        if len(groups) > 1 and groups[1] is not group:  # this name joins two groups
            group.extend(groups[1])
            for other in groups[1]:
                group_by_key |= dict.fromkeys(keys_of(other), group)
        group.append(name)
        group_by_key |= dict.fromkeys(keys, group)
    groups_by_id = {id(group): group for group in group_by_key.values()}
    return sorted(tuple(sorted(group)) for group in groups_by_id.values() if len(group) > 1)


def look_alike(name: str, names: Iterable[str]) -> str | None:
    """Return the first of these names that looks like a name or equals it, or None."""
    keys = keys_of(name)
    return next((other for other in names if keys & keys_of(other)), None)


def check_new_name(name: str, others: Iterable[str], *, may_equal: bool = False) -> None:
    """Refuse a new name that is reserved, or that looks like one of these.

    With `may_equal` it may be one of them: a person's second token, a seat of two panels.
    """
    if is_reserved(name):
        raise UsageError(f"the name {shown(name)} is reserved.", hint="Choose another name.")
    others = [other for other in others if not (may_equal and other == name)]
    other = look_alike(name, others)
    if other is not None:
        what = "is already used" if other == name else f"looks like {shown(other)}"
        raise UsageError(
            f"the name {shown(name)} {what}.", hint="Reviews show the name: choose another."
        )
