"""Each key's line, which the refusals of a configuration rest on."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from peerage.config.sources import key_lines


def test_keys_and_tables_have_the_line_they_are_written_on() -> None:
    found = key_lines("a = 1\n\n[t]  # a comment\nb = 2\n[t.u]\nc = 3\n")
    assert found == {("a",): 1, ("t",): 3, ("t", "b"): 4, ("t", "u"): 5, ("t", "u", "c"): 6}


def test_the_third_table_of_an_array_is_not_the_first() -> None:
    found = key_lines(
        '[[seat]]\nname="a"\n[[seat]]\nname="b"\n[seat.options]\nx=1\n[[seat]]\nname="c"\n'
    )
    assert found["seat", 0, "name"] == 2
    assert found["seat", 1] == 3
    assert found["seat", 1, "options", "x"] == 6
    assert found["seat", 2, "name"] == 8


def test_arrays_of_tables_inside_arrays_of_tables_count_from_their_own_parent() -> None:
    found = key_lines("[[a]]\n[[a.b]]\n[[a.b]]\nx=1\n[[a]]\n[[a.b]]\nx=1\n")
    assert found["a", 0, "b", 1, "x"] == 4
    assert found["a", 1, "b", 0, "x"] == 7


def test_dotted_and_quoted_keys_are_read_as_toml_reads_them() -> None:
    found = key_lines('a . b."c.d" = 1\n["x y".\'z\']\n"\\u0041" = 2\n"" = 3\n')
    assert found["a", "b", "c.d"] == 1
    assert found["x y", "z", "A"] == 3
    assert found["x y", "z", ""] == 4


def test_a_key_inside_a_string_or_a_comment_is_not_found() -> None:
    text = 'a = """\n[fake]\nb = 1\\"""\n"""""\n# c = 2\n'
    text += "d = '''\ne = 3'''\n" + 'f = "[g] = #"\nh = 4\n'
    assert key_lines(text) == {("a",): 1, ("d",): 6, ("f",): 8, ("h",): 9}
    assert set(tomllib.loads(text)) == {"a", "d", "f", "h"}


def test_inline_tables_and_lists_have_the_line_of_their_key() -> None:
    text = "seat = [\n  {name = 'a', roles = ['x', 'y']},  # one ]\n"
    text += "  {name = 'b', o.p = {q = 1}},\n]\nz = 1979-05-27 07:32:00\ny = 0.5\n"
    found = key_lines(text)
    assert found == {("seat",): 1, ("z",): 5, ("y",): 6}


def test_a_list_item_that_looks_like_a_header_hides_no_key() -> None:
    text = "a = [\n[1],\n['b']\n]\n[t]\nc = 1\n"
    assert key_lines(text) == {("a",): 1, ("t",): 6, ("t", "c"): 6}


def test_a_table_that_a_key_opened_earlier_keeps_its_first_line() -> None:
    assert key_lines("[a.b]\nx = 1\n[a]\ny = 1\n")["a",] == 1


NAMES = st.sampled_from(["rule", "seed", "a b", "x.y", "é", '"', "9-10"])
VALUES = st.sampled_from(
    [
        "1",
        "true",
        '"a # b"',
        "'[x]'",
        '"""\nk = 1\n[t]\n"""',
        "[\n1, # ]\n2\n]",
        "{p = 1, q.r = [2]}",
    ]
)
BLOCKS = st.lists(
    st.tuples(
        st.booleans(),
        st.dictionaries(NAMES, VALUES, max_size=4),
        st.sampled_from(["", "# [t]\n", "\n\n"]),
    ),
    max_size=6,
)


@given(BLOCKS)
def test_every_key_of_any_document_is_found_on_its_line(
    blocks: list[tuple[bool, dict[str, str], str]],
) -> None:
    text, n_seats, expected = "", 0, {}
    for number, (is_seat, pairs, gap) in enumerate(blocks):
        text += gap
        table: tuple[str | int, ...] = ("seat", n_seats) if is_seat else (f"t{number}",)
        n_seats += is_seat
        expected[table] = text.count("\n") + 1
        text += "[[seat]]\n" if is_seat else f"[t{number}]\n"
        for name, value in pairs.items():
            expected[*table, name] = text.count("\n") + 1
            quoted = name.replace('"', '\\"')
            text += f'"{quoted}" = {value}\n'
    tomllib.loads(text)
    found = key_lines(text)
    assert {path: found.get(path) for path in expected} == expected
