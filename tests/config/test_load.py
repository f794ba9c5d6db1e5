"""Where a value comes from: defaults, file, environment, flags; the later wins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.config import Settings
from peerage.config.sources import ALIASES
from peerage.errors import ConfigError

Load = Callable[..., Settings]


# -- which file --------------------------------------------------------------------------------


def test_a_file_in_the_working_directory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.load(environ={}).council.rule == "borda"
    Path("peerage.toml").write_text('council.rule = "elo"', encoding="utf-8")
    assert config.find(environ={}) == Path("peerage.toml")
    assert config.load(environ={}).council.rule == "elo"


def test_the_named_file_wins_over_the_one_at_hand_and_the_argument_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("peerage", "named", "asked"):
        Path(f"{name}.toml").write_text(f'council.rule = "{name}"', encoding="utf-8")
    environ = {"PEERAGE_CONFIG": "named.toml"}
    assert config.load(environ=environ).council.rule == "named"
    assert config.load("asked.toml", environ=environ).council.rule == "asked"


def test_a_file_that_is_asked_for_and_missing_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    said = r"none\.toml: it cannot be read \(no such file"
    with pytest.raises(ConfigError, match=said):
        config.load(missing, environ={})
    with pytest.raises(ConfigError, match=said):
        config.load(environ={"PEERAGE_CONFIG": str(missing)})


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "peerage.toml"
    path.write_bytes(b'\xef\xbb\xbf[council]\r\nrule = "elo"\r\norder = "x"\r\n')
    with pytest.raises(ConfigError, match=r"line 3, \[council\] order"):
        config.load(path, environ={})


# -- precedence --------------------------------------------------------------------------------

KEYS: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "store": (["a://1", "b://2", "c://3"], ("PEERAGE_STORE",)),
    "council.rule": (["elo", "schulze", "mean_rank"], ("PEERAGE_RULE", "PEERAGE_COUNCIL__RULE")),
    "council.seed": (
        [1, -2, 3],
        ("LLM_COUNCIL_RANDOM_SEED", "PEERAGE_SEED", "PEERAGE_COUNCIL__SEED"),
    ),
    "council.audit": ([True, False], ("LLM_COUNCIL_BIAS_AUDIT", "PEERAGE_AUDIT")),
    "council.safety_gate": ([True, False], ("LLM_COUNCIL_SAFETY_GATE", "PEERAGE_SAFETY_GATE")),
    "council.rubric": ([False, "coding", "factual"], ("PEERAGE_RUBRIC",)),
    "council.budget_usd": ([0.5, 2.0, 3.25], ("PEERAGE_BUDGET_USD",)),
    "council.safety_score_cap": (
        [0.5, 2.0, 3.25],
        ("LLM_COUNCIL_SAFETY_SCORE_CAP", "PEERAGE_SAFETY_SCORE_CAP"),
    ),
    "audit.length_correlation": (
        [0.1, 0.2, 0.9],
        ("LLM_COUNCIL_LENGTH_CORRELATION_THRESHOLD", "PEERAGE_AUDIT__LENGTH_CORRELATION"),
    ),
    "audit.position_variance": (
        [0.1, 0.2, 0.9],
        ("LLM_COUNCIL_POSITION_VARIANCE_THRESHOLD", "PEERAGE_AUDIT__POSITION_VARIANCE"),
    ),
    "audit.n_min.style": ([7, 8, 9], ("PEERAGE_AUDIT__N_MIN__STYLE",)),
    "community.reputation_cap": ([1.0, 2.5], ("PEERAGE_COMMUNITY__REPUTATION_CAP",)),
}


def as_toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def at(settings: Any, key: str) -> object:
    for part in key.split("."):
        settings = settings[part] if isinstance(settings, dict) else getattr(settings, part)
    return settings


@given(st.data())
def test_the_strongest_source_that_speaks_has_the_last_word(
    load: Load, data: st.DataObject
) -> None:
    """Two spellings of one variable are not both drawn: they would have to agree."""
    text = ""
    environ: dict[str, str] = {}
    flags: dict[str, object] = {}
    expected: dict[str, object] = {}
    for key, (values, names) in KEYS.items():
        value: st.SearchStrategy[Any] = st.sampled_from(values)
        expected[key] = at(Settings(), key)
        if data.draw(st.booleans()):
            expected[key] = data.draw(value)
            text += f"{key} = {as_toml(expected[key])}\n"
        aliases = [name for name in names if name in ALIASES]
        own = [name for name in names if name not in ALIASES]
        for spellings in (aliases, own):
            speaks: bool = data.draw(st.booleans())
            if spellings and speaks:
                expected[key] = data.draw(value)
                environ[data.draw(st.sampled_from(spellings))] = str(expected[key])
        if data.draw(st.booleans()):
            expected[key] = data.draw(value)
            flags[key] = expected[key]
    settings = load(text, environ, flags)
    assert {key: at(settings, key) for key in KEYS} == expected


def test_a_flag_that_was_not_given_leaves_the_file_alone(load: Load) -> None:
    assert load('council.rule = "elo"', flags={"council.rule": None}).council.rule == "elo"


def test_flags_do_not_touch_what_the_caller_handed_in() -> None:
    seats = [{"name": "a", "provider": "simulated", "bad": 1}]
    with pytest.raises(ConfigError, match="option seat: there is no such key"):
        config.load(environ={}, flags={"seat": seats})
    assert seats == [{"name": "a", "provider": "simulated", "bad": 1}]


def test_flags_may_bring_whole_seats() -> None:
    seats = [{"name": name, "provider": "simulated"} for name in "ab"]
    assert [seat.name for seat in config.load(environ={}, flags={"seat": seats}).seats] == [
        "a",
        "b",
    ]


# -- the environment ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("TRUE", True), ("on", True), ("1", True), ("No", False), ("off", False), ("0", False)],
)
def test_truth_is_read_in_the_usual_spellings(load: Load, text: str, value: bool) -> None:
    assert load(environ={"LLM_COUNCIL_SAFETY_GATE": text}).council.safety_gate is value


def test_a_scale_is_read_with_or_without_brackets(load: Load) -> None:
    for text in ("-1, 0, 1, 2", "[-1, 0, 1, 2]"):
        scale = load(environ={"PEERAGE_COMMUNITY__SCALE": text}).community.scale
        assert scale == (-1, 0, 1, 2)


def test_a_category_is_given_its_rubric_by_a_variable(load: Load) -> None:
    settings = load(environ={"PEERAGE_RUBRIC_BY_CATEGORY__CODE": "coding"})
    assert settings.rubric_by_category == {"code": "coding"}


def test_two_spellings_of_one_variable_may_agree(load: Load) -> None:
    environ = {"PEERAGE_RULE": "elo", "PEERAGE_COUNCIL__RULE": "elo"}
    assert load(environ=environ).council.rule == "elo"


@pytest.mark.parametrize(
    "name",
    ["PEERAGE_TEST_ALL", "PEERAGE_TEST_RULE", "PEERAGE_TOKEN", "PEERAGE_HOST", "PEERAGE_PORT",
     "PEERAGE_LOG", "PEERAGE_HOME", "LLM_COUNCIL_MODELS", "LLM_COUNCIL_BIAS_AUDIT_V2", "PATH"],
)  # fmt: skip
def test_variables_of_other_tools_are_left_alone(load: Load, name: str) -> None:
    assert load(environ={name: "1"}) == Settings()


def test_a_seats_key_is_no_slip_for_a_setting(load: Load) -> None:
    with pytest.raises(ConfigError, match="there is no such variable"):
        load(environ={"PEERAGE_MY__KEY": "secret"})
    text = '[[seat]]\nname="a"\nmodel="m"\napi_key_env="PEERAGE_MY__KEY"'
    assert load(text, {"PEERAGE_MY__KEY": "secret"}).seats[0].api_key_env == "PEERAGE_MY__KEY"
