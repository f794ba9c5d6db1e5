"""Rubrics are data; weights are exact and sum to one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.config import rubrics
from peerage.errors import ConfigError

OWN = """
[rubric.support]
description = "For customers."
[rubric.support.weights]
accuracy = 0.5
clarity = 0.3
kindness = 0.2
[rubric.support.dimension.kindness]
question = "Would they feel well treated?"
[rubric.support.dimension.kindness.anchors]
"1-4" = "Curt."
"9-10" = "Warm."
"5" = "Cold."
"""


SHIPPED_CEILINGS = ((Fraction(5), Fraction(4)), (Fraction(7), Fraction(7)))

Load = Callable[..., config.Settings]


def weights_text(name: str, **weights: float) -> str:
    return f"[rubric.{name}.weights]\n" + "".join(f"{k} = {v}\n" for k, v in weights.items())


def test_the_default_weights_are_those_documented() -> None:
    assert config.rubric("general").weights == {
        "accuracy": Fraction(7, 20),
        "relevance": Fraction(1, 10),
        "completeness": Fraction(1, 5),
        "conciseness": Fraction(3, 20),
        "clarity": Fraction(1, 5),
    }


def test_the_original_four_are_a_preset() -> None:
    assert list(config.rubric("original").weights.values()) == [
        Fraction(7, 20),
        Fraction(1, 4),
        Fraction(1, 5),
        Fraction(1, 5),
    ]


def test_five_rubrics_are_shipped() -> None:
    assert config.rubric_names() == ("coding", "creative", "factual", "general", "original")


@pytest.mark.parametrize("name", config.rubric_names())
def test_a_shipped_rubric_holds_together_and_sums_to_one_exactly(name: str) -> None:
    shipped = config.rubric(name)
    assert rubrics.shipped_table(name)["name"] == shipped.name == name
    assert sum(shipped.weights.values()) == 1
    assert [dimension.name for dimension in shipped.dimensions] == list(shipped.weights)
    assert shipped.description


@pytest.mark.parametrize("name", ["general", "original"])
def test_the_shipped_rubrics_have_the_two_ceilings(name: str) -> None:
    assert config.rubric(name).ceilings == SHIPPED_CEILINGS


def test_shipped_dimensions_have_anchors_best_first_over_all_marks() -> None:
    for dimension in rubrics.shipped_dimensions().values():
        assert [band for band, _ in dimension.anchors] == ["9-10", "7-8", "5-6", "3-4", "1-2"]
        assert not list(rubrics.check({"accuracy": 1}, (), {}))


def test_a_shipped_rubric_is_read_once() -> None:
    assert config.rubric("general") is config.rubric("general")


def test_a_users_rubric_brings_its_own_dimension_with_anchors_best_first(load: Load) -> None:
    settings = load(OWN)
    own = config.rubric("support", settings)
    assert own.weights == {
        "accuracy": Fraction(1, 2),
        "clarity": Fraction(3, 10),
        "kindness": Fraction(1, 5),
    }
    assert own.dimensions[2].anchors == (("9-10", "Warm."), ("5", "Cold."), ("1-4", "Curt."))
    assert own.ceilings == SHIPPED_CEILINGS
    assert "support" in config.rubric_names(settings)
    assert "support" not in config.rubric_names()


def test_a_users_rubric_replaces_a_shipped_one_of_its_name_whole(load: Load) -> None:
    settings = load(weights_text("general", accuracy=0.5, safety=0.5))
    assert set(config.rubric("general", settings).weights) == {"accuracy", "safety"}
    assert set(config.rubric("general").weights) != {"accuracy", "safety"}


def test_ceilings_may_be_given_or_given_up(load: Load) -> None:
    text = "[rubric.a]\nceilings = []\nweights = {accuracy = 1}\n"
    text += "[rubric.b]\nceilings = [[4, 2.5]]\nweights = {accuracy = 1}\n"
    settings = load(text)
    assert config.rubric("a", settings).ceilings == ()
    assert config.rubric("b", settings).ceilings == ((Fraction(4), Fraction(5, 2)),)


def test_an_unknown_rubric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"no rubric 'codign'\. Did you mean 'coding'\?"):
        config.rubric("codign")
    with pytest.raises(ConfigError, match="no rubric"):
        config.rubric("dimensions")
    with pytest.raises(ConfigError, match="no rubric"):
        config.rubric("../rubrics/general")


# -- the seeds' weights ------------------------------------------------------------------------


def test_a_weight_from_the_environment_changes_general_alone(load: Load) -> None:
    environ = {"LLM_COUNCIL_WEIGHT_ACCURACY": "0.40", "LLM_COUNCIL_WEIGHT_CLARITY": "0.15"}
    settings = load("", environ)
    changed = config.rubric("general", settings)
    assert changed.weights == {
        **config.rubric("general").weights,
        "accuracy": Fraction(2, 5),
        "clarity": Fraction(3, 20),
    }
    assert changed.ceilings == config.rubric("general").ceilings
    assert config.rubric("original", settings) is config.rubric("original")


def test_a_weight_from_the_environment_stands_on_the_files_own_general(load: Load) -> None:
    text = weights_text("general", accuracy=0.6, clarity=0.3)
    settings = load(text, {"LLM_COUNCIL_WEIGHT_ACCURACY": "0.7"})
    assert config.rubric("general", settings).weights["accuracy"] == Fraction(7, 10)


def test_the_houses_own_name_for_a_weight_wins_over_the_alias(load: Load) -> None:
    environ = {
        "LLM_COUNCIL_WEIGHT_ACCURACY": "0.9",
        "PEERAGE_RUBRIC__GENERAL__WEIGHTS__ACCURACY": "0.35",
    }
    settings = load("", environ)
    assert config.rubric("general", settings).weights == config.rubric("general").weights


def test_weights_that_do_not_sum_name_the_variables_that_changed_them(load: Load) -> None:
    environ = {"LLM_COUNCIL_WEIGHT_ACCURACY": "0.5", "LLM_COUNCIL_WEIGHT_CLARITY": "0.5"}
    with pytest.raises(ConfigError) as caught:
        load("", environ)
    assert caught.value.place == "LLM_COUNCIL_WEIGHT_ACCURACY, LLM_COUNCIL_WEIGHT_CLARITY"
    assert "sum to 1.45" in caught.value.message


# -- refusals ----------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=5))
def test_weights_are_taken_exactly_when_they_sum_to_one_within_a_thousandth(
    thousandths: list[int],
) -> None:
    weights = dict(zip(rubrics.shipped_dimensions(), (n / 1000 for n in thousandths), strict=False))
    if 999 <= sum(thousandths) <= 1001:
        built = rubrics.build("x", weights)
        assert list(built.weights.values()) == [Fraction(n, 1000) for n in thousandths]
    else:
        with pytest.raises(ConfigError, match="must sum to 1"):
            rubrics.build("x", weights)


DIMENSION = '\n[rubric.x.dimension.wit]\nquestion = "{q}"\n[rubric.x.dimension.wit.anchors]\n{a}\n'
WIT = "[rubric.x.weights]\naccuracy = 0.5\nwit = 0.5" + DIMENSION
TWO = '"1-5" = "a"\n"6-10" = "b"'


WEIGHTS = "[rubric.x.weights]\n"
CEILINGS = "[rubric.x]\nweights = {accuracy = 1}\nceilings = "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WEIGHTS + "clarity = 1.0", r"line 1, \[rubric.x.weights\].* accuracy"),
        (WEIGHTS + "accuracy = 0.9", "sum to 0.9"),
        (
            WEIGHTS + "accuracy = 1\nclarity = 0",
            r"line 3, .* clarity.* more than 0",
        ),
        (WEIGHTS + "accuracy = 1.5\nclarity = -0.5", "more than 0, not -0.5"),
        (WEIGHTS + "accuracy = 0.5\nclarrity = 0.5", "no dimension 'clarrity'.*you mean 'clarity'"),
        (
            WEIGHTS + "accuracy = 0.5\nwit = 0.5",
            r"Known: accuracy, .*\[rubric.NAME.dimension.wit\]",
        ),
        (WEIGHTS + "accuracy = true", "must be a number, not true"),
        (WEIGHTS + "accuracy = nan", "must be a finite number, not nan"),
        ("[rubric.x]\nweight = {accuracy = 1}", "Did you mean 'weights'"),
        ("[rubric.x]\ndescription = 'no weights'", r"line 1, \[rubric.x\].*'weights'"),
        ("[rubric.'a b'.weights]\naccuracy = 1", "'a b'.* valid"),
        ("rubric = 'general'", "must be a table, not 'general'"),
        (CEILINGS + "[[5]]", r"line 3, \[rubric.x\] ceilings"),
        (CEILINGS + "[[50, 4]]", "not a ceiling"),
        (CEILINGS + "[[5, -4]]", "not a ceiling"),
        (CEILINGS + "[[7, 7], [5, 4]]", "ceilings must rise"),
        (CEILINGS + "[[5, 7], [7, 4]]", "ceilings must rise"),
        (CEILINGS + "5", "must be a list, not 5"),
        (WIT.format(q="  ", a=TWO), "the question is empty"),
        (WIT.format(q="q", a='"1-5" = "a"'), "at least two anchors"),
        (WIT.format(q="q", a='"1-5" = "a"\n"5-10" = "b"'), "'1-5' overlaps another"),
        (WIT.format(q="q", a='"0-5" = "a"\n"6-10" = "b"'), "'0-5' is not a range"),
        (WIT.format(q="q", a='"5-1" = "a"\n"6-10" = "b"'), "'5-1' is not a range"),
        (WIT.format(q="q", a='"good" = "a"\n"6-10" = "b"'), "'good' is not a range"),
        (WIT.format(q="q", a='"1-5" = " "\n"6-10" = "b"'), "'1-5' has no description"),
        (WIT.format(q="q", a=TWO).replace("wit = 0.5", "clarity = 0.5"), "'wit' has no weight"),
        (
            WIT.format(q="q", a=TWO).replace("wit", "overall"),
            "'overall'.* valid",
        ),
        (WIT.format(q="q", a=TWO).replace("wit", "Wit"), "'Wit'.* valid"),
    ],
)
def test_an_unsound_rubric_is_refused(load: Load, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){said}"):
        load(text)
