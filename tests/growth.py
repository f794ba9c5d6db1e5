"""Measures how the work of a reader grows with the text that it reads, by processor time."""

import re._constants as ops
import re._parser as parser
import time
from itertools import pairwise
from random import Random

SIZES = (400, 1_600, 6_400)
LARGE_SIZES = (*SIZES, 25_600, 102_400)
MOST = 9  # times as long for four times the text: linear work takes 4, quadratic work 16
NOTICED_S = 0.005  # quadratic work on the larger texts takes much more
SPOILER = "\x00"  # ends a text such that what fitted so far does not fit
N_TEXTS = 6

REPRESENTATIVES = {
    ops.CATEGORY_DIGIT: "1",
    ops.CATEGORY_NOT_DIGIT: "a",
    ops.CATEGORY_SPACE: " ",
    ops.CATEGORY_NOT_SPACE: "a",
    ops.CATEGORY_WORD: "a",
    ops.CATEGORY_NOT_WORD: "!",
}


def is_linear(work, start, unit, sizes=SIZES):
    """Whether `work` on `start` and many times `unit` grows in proportion to the text."""
    texts = [start + unit * (size // len(unit)) + SPOILER for size in sizes]
    taken = [cpu_s(work, texts[0])]
    for small, large in pairwise(texts):
        taken.append(cpu_s(work, large))
        most = MOST * len(large) / (4 * len(small))
        if taken[-1] < NOTICED_S or taken[-1] < most * taken[-2]:
            continue
        if not _is_quick_once(work, small, large, most):
            return False
    return True


def _is_quick_once(work, small, large, most):
    """Whether the large text takes at most so many times as long in one of a few comparisons.

    A busy machine slows single runs down, so the best of several is compared.
    """
    return any(
        min(cpu_s(work, large) for _ in range(2)) < most * min(cpu_s(work, small) for _ in range(3))
        for _ in range(4)
    )


def cpu_s(work, text):
    began = time.thread_time()
    work(text)
    return time.thread_time() - began


# -- texts that are hard for one pattern ----------------------------------------------------------


def read_by(pattern):
    """What a caller may do with a pattern: find it everywhere, and ask whether it is the whole."""

    def work(text):
        given = text.encode() if isinstance(pattern.pattern, bytes) else text
        for _ in pattern.finditer(given):
            pass
        pattern.match(given)
        pattern.fullmatch(given)

    return work


def hard_texts(pattern, n=N_TEXTS):
    """Pairs of a start and a unit to repeat, made of what a pattern itself looks for."""
    rng = Random(repr(pattern.pattern))
    is_bytes = isinstance(pattern.pattern, bytes)
    source = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
    tree = parser.parse(source, pattern.flags)
    letters = sorted(set(_letters(tree)))
    letters = rng.sample(letters, min(len(letters), 10))
    words = sorted({_word(tree, rng) for _ in range(12)} - {""})
    parts = {word[:k] for word in words for k in (1, len(word) // 2, len(word) - 1)} - {""}
    pairs = {one + other for one in letters for other in letters}
    starts = ["", *sorted(parts)]
    units = sorted({*letters, *words, *parts, *pairs, " ", "a"})
    plain = [("", letter) for letter in letters]
    after_one = [(one, other) for one in letters for other in letters if one != other]
    rng.shuffle(after_one)
    mixed = [(rng.choice(starts), rng.choice(units)) for _ in range(n)]
    return list(dict.fromkeys([*plain, *after_one[:n], *mixed]))


def _letters(tree):
    """A character for each literal and class of a parsed pattern."""
    for op, value in tree:
        if op is ops.LITERAL:
            yield chr(value)
        elif op in (ops.NOT_LITERAL, ops.ANY):
            yield "a"
        elif op is ops.IN:
            yield from _of_class(value)
        else:
            for inner in _inner(op, value):
                yield from _letters(inner)


def _inner(op, value):
    """The patterns inside one part of a parsed pattern."""
    if op is ops.BRANCH:
        return value[1]
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        return [value[2]]
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [value[1]]
    return [value] if op is ops.ATOMIC_GROUP else []


def _of_class(members):
    """A few characters of a class; of one that excludes some, an outsider and a few of those."""
    listed = []
    for op, value in members:
        if op is ops.LITERAL:
            listed.append(chr(value))
        elif op is ops.RANGE:
            listed.append(chr(value[0]))
        elif op is ops.CATEGORY:
            listed.append(REPRESENTATIVES[value])
    if members[0][0] is not ops.NEGATE:
        return listed[:4]
    return [next(one for one in "a1 !\n~" if one not in listed), *listed[:2]]


def _word(tree, rng):
    """A text that a parsed pattern may match, with look-arounds left out."""
    text = ""
    for op, value in tree:
        if op is ops.LITERAL:
            text += chr(value)
        elif op in (ops.NOT_LITERAL, ops.ANY):
            text += "a"
        elif op is ops.IN:
            text += rng.choice(_of_class(value))
        elif op is ops.BRANCH:
            text += _word(rng.choice(value[1]), rng)
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            least, most, inner = value
            times = rng.choice([least, min(most, least + 1), min(most, least + 2)])
            text += "".join(_word(inner, rng) for _ in range(times))
        elif op not in (ops.ASSERT, ops.ASSERT_NOT):
            text += "".join(_word(inner, rng) for inner in _inner(op, value))
    return text
