"""The tree: its defaults, what it derives, and that the documentation tells the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from peerage import findings, types
from peerage.config import Settings
from peerage.config.sources import ALIASES, leaves, variables
from peerage.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"

SAMPLE = """
store = "sqlite:///peerage.db"
[council]
rule = "borda"
rubric = "general"
own_votes = "out"
order = "balanced"
seed = 7
safety_gate = false
audit = true
verdict = "synthesis"
budget_usd = 2.0
[[seat]]
name = "sonnet"
family = "claude"
provider = "openai"
base_url = "http://127.0.0.1:8000/v1"
model = "some-model"
api_key_env = "SOME_KEY"
temperature = 0.7
system = "…"
roles = ["answer", "review"]
timeout_s = 60
max_concurrency = 16
price_in = 3.0
price_out = 15.0
[rubric_by_category]
code = "coding"
[audit]
length_correlation = 0.3
position_variance = 0.5
[community]
affiliation_bonus_points = 10
min_reviews_for_quality = 3
min_reviews_required = 5
quality_weight = 0.7
reputation_weight = 0.3
reputation_cap = 2
scale = [-1, 1]
"""


Load = Callable[..., Settings]


# -- defaults and the sample -------------------------------------------------------------------


def test_nothing_said_gives_the_documented_defaults(load: Load) -> None:
    settings = load()
    assert settings == Settings()
    assert settings.store == "sqlite:///peerage.db"
    assert settings.council.model_dump() == {
        "rule": "borda",
        "rubric": "general",
        "own_votes": "out",
        "review": "blind",
        "order": "balanced",
        "seed": None,
        "safety_gate": False,
        "moderator": "patterns",
        "safety_score_cap": 0.0,
        "audit": True,
        "soft_votes": True,
        "verdict": "synthesis",
        "budget_usd": None,
        "quorum": None,
        "chair": None,
        "rounds": 1,
        "early_stop": False,
        "seal": "required",
        "second_chance": True,
        "structured_answers": False,
        "deadline_s": None,
    }
    assert (settings.audit.length_correlation, settings.audit.position_variance) == (0.3, 0.5)
    assert settings.community.model_dump() == {
        "affiliation_bonus_points": 10,
        "min_reviews_for_quality": 3,
        "min_reviews_required": 5,
        "quality_weight": 0.7,
        "reputation_weight": 0.3,
        "reputation_cap": 2,
        "scale": (-1, 1),
    }
    assert settings.seats == ()
    assert settings.rubrics == {}


def test_every_key_of_the_public_sample_loads(load: Load) -> None:
    settings = load(SAMPLE)
    assert settings.council.seed == 7
    assert settings.council.budget_usd == 2.0
    assert settings.rubric_by_category == {"code": "coding"}
    assert settings.seats == (
        types.Seat(
            name="sonnet",
            family="claude",
            base_url="http://127.0.0.1:8000/v1",
            model="some-model",
            api_key_env="SOME_KEY",
            system="…",
            max_concurrency=16,
            price_in=3.0,
            price_out=15.0,
        ),
    )


def test_the_samples_values_are_the_defaults_but_for_what_it_uncomments(load: Load) -> None:
    settings = load(SAMPLE)
    same = {"seed": None, "budget_usd": None}
    assert settings.council.model_copy(update=same) == Settings().council
    assert (settings.audit, settings.community) == (Settings().audit, Settings().community)


def test_a_seats_defaults_are_those_of_the_noun(load: Load) -> None:
    settings = load('[[seat]]\nname = "a"\nprovider = "simulated"')
    assert settings.seats == (types.Seat("a", provider="simulated"),)


def test_a_simulated_seat_keeps_its_options(load: Load) -> None:
    text = (
        '[[seat]]\nname="a"\nprovider="simulated"\n[seat.options]\nskill=0.8\ndeep={x=[1,"y",true]}'
    )
    assert load(text).seats[0].options == {"skill": 0.8, "deep": {"x": [1, "y", True]}}


def test_settings_cannot_be_changed(load: Load) -> None:
    settings = load(SAMPLE)
    with pytest.raises(ValidationError, match="frozen"):
        settings.council.rule = "elo"
    with pytest.raises(ValidationError, match="frozen"):
        settings.store = "sqlite:///other.db"


def test_settings_made_by_hand_look_at_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERAGE_STORE", "sqlite:///elsewhere.db")
    monkeypatch.setenv("STORE", "sqlite:///elsewhere.db")
    assert Settings().store == "sqlite:///peerage.db"


# -- what the tree says of itself --------------------------------------------------------------

PANEL = """
[[seat]]
name = "a"
provider = "simulated"
[[seat]]
name = "b"
provider = "simulated"
roles = ["review", "chair"]
[[seat]]
name = "c"
provider = "simulated"
roles = ["answer"]
"""


def test_the_chair_is_the_one_named_else_the_one_with_the_role(load: Load) -> None:
    by_role, named = load(PANEL).chair, load(PANEL, {"PEERAGE_CHAIR": "c"}).chair
    assert by_role is not None
    assert named is not None
    assert (by_role.name, named.name) == ("b", "c")
    assert load().chair is None


def test_the_quorum_is_more_than_half_of_those_who_answer_unless_said(load: Load) -> None:
    assert load(PANEL).quorum == 2
    assert load(PANEL, {"PEERAGE_QUORUM": "1"}).quorum == 1
    assert [seat.name for seat in load(PANEL).seats_that("review")] == ["a", "b"]


def test_a_panel_of_reviewers_alone_may_judge_answers_made_elsewhere(load: Load) -> None:
    text = '[[seat]]\nname="a"\nprovider="simulated"\nroles=["review"]'
    assert load(text).seats_that("answer") == ()


def test_a_category_without_its_own_rubric_has_the_councils(load: Load) -> None:
    settings = load("[rubric_by_category]\ncode = 'coding'")
    coding, general = settings.rubric_for("code"), settings.rubric_for("poetry")
    assert coding is not None
    assert general is not None
    assert (coding.name, general.name) == ("coding", "general")
    assert load("council.rubric = false").rubric_for("poetry") is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[panel.quick]\nseats = ["a"]', "is not a valid panel name"),
        ('[panel.a]\nseats = ["a"]', "has the name of a seat"),
        ("[panel.x]\nseats = []", "at least one seat"),
        ('[panel.x]\nseats = ["b"]', "'b' is not a seat"),
        ('[server]\nquick_seat = "b"', "'b' is not a seat"),
    ],
)
def test_a_panel_has_seats_and_a_name_of_its_own(load: Load, more: str, words: str) -> None:
    seat = '[[seat]]\nname = "a"\nprovider = "simulated"\n'
    assert load(f'{seat}[panel.x]\nseats = ["a"]').panel["x"].seats == ("a",)
    with pytest.raises(ConfigError, match=words):
        load(seat + more)


def test_a_repr_holds_no_password(load: Load) -> None:
    settings = load('store = "postgresql://me:hunter2@host/db"')
    assert "hunter2" in settings.store
    assert "hunter2" not in f"{settings!r} {settings}"


# -- documents ---------------------------------------------------------------------------------


def blocks() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def test_every_block_of_the_documentation_loads(load: Load) -> None:
    assert len([load(block) for block in blocks()]) == 4


def test_the_documented_defaults_are_the_defaults_and_none_is_left_out(load: Load) -> None:
    block = blocks()[0]
    assert load(block) == Settings()
    said = re.sub(r"^# (?=\w+ = )", "", block, flags=re.MULTILINE).replace('chair = "sonnet"', "")
    seats = '[[seat]]\nname = "x"\nprovider = "simulated"\n'
    tree = load(said.replace("quorum = 2", "quorum = 1") + seats).model_dump(exclude_unset=True)
    named = {".".join(path) for path in leaves(Settings)} - {"council.chair"}
    assert {name for name in named if not holds(tree, name)} == set()
    assert "# chair =" in block


def holds(tree: Any, dotted: str) -> bool:
    for part in dotted.split("."):
        if part not in tree:
            return False
        tree = tree[part]
    return True


def test_every_alias_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in ALIASES if f"_{name.split('_')[-1]}" not in text] == []
    assert set(ALIASES) <= set(variables())


def test_a_metric_is_read_by_its_former_name_unless_the_present_one_is_given_too() -> None:
    limits = Settings.model_validate({"audit": {"n_min": {"sycophancy": 33}}}).audit.limits
    assert limits.n_min == {**findings.N_MIN, "pair_departure": 33}
    both = {"sycophancy": 0.9, "pair_departure": 0.7}
    limits = Settings.model_validate({"audit": {"healthy": both}}).audit.limits
    assert limits.healthy == {**findings.HEALTHY, "pair_departure": 0.7}
