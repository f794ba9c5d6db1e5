"""What `import peerage` offers: the names of the contract, each of them callable."""

import asyncio

import pytest

import peerage

ROWS = [
    {"session_id": f"s{i}", "reviewer": r, "candidate": c, "score": float((i + k) % 5 + 3)}
    for i in range(6)
    for r in "xyz"
    for k, c in enumerate("abc")
]
OPINIONS = [
    {
        "item_id": f"i{i}",
        "contributor": "ann",
        "reviewer": f"r{j}",
        "opinion": 1 if (i + j) % 3 else -1,
    }
    for i in range(6)
    for j in range(4)
]


@pytest.mark.parametrize(
    "name",
    [
        "Council",
        "score",
        "audit",
        "board_models",
        "board_contributors",
        "board_reviewers",
        "board_items",
    ],
)
def test_every_public_name_is_there(name):
    assert callable(getattr(peerage, name))


def test_boards_and_audits_take_plain_rows():
    assert {row["model"] for row in peerage.board_models(ROWS, since="all").rows} == set("abc")
    assert peerage.audit(ROWS).findings
    assert [row["contributor"] for row in peerage.board_contributors(OPINIONS).rows] == ["ann"]
    assert len(peerage.board_reviewers(OPINIONS).rows) == 4


def test_a_council_asks_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seats = "".join(f'[[seat]]\nname = "{n}"\nprovider = "simulated"\n' for n in "abc")
    (tmp_path / "peerage.toml").write_text("[council]\nseed = 7\n" + seats)

    async def scene():
        async with peerage.Council.from_config("peerage.toml") as council:
            return await council.ask("Why?")

    session = asyncio.run(scene())
    assert session.status == "done"
    assert len(session.scores) == 3


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = peerage.nothing
