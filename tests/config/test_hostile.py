"""Settings that somebody else wrote: bounded, never a traceback, and no say over other secrets."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.config.sources import KEY_LINE, MAX_DEPTH, MAX_MARKS, TOO_DEEP, key_lines
from peerage.errors import ConfigError

Load = Callable[..., config.Settings]

OPEN = '[[seat]]\nname = "a"\nmodel = "m"\n'


def refusal(load: Load, text: str | bytes = "", environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, environ)
    return str(caught.value)


# -- size and depth ----------------------------------------------------------------------------

MANY = 500_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a" + ".a" * (MANY // 10) + " = 1", "too deeply nested"),
        ("[a" + ".a" * (MANY // 10) + "]", "too deeply nested"),
        ('["a"' + '."a"' * (MANY // 20) + "]", "too deeply nested"),
        ("a = " + "[" * (MANY // 10), "too deeply nested"),
        ("a = " + "{a=" * (MANY // 20), "too deeply nested"),
        ("a = " + "[{a=" * (MANY // 20), "too deeply nested"),
        ("a = " + "[" * 50 + "]" * 50, "too deeply nested"),
        ("a = " + "[" * MANY, "too long"),
        ("".join(f"[t{n}]\n" for n in range(MANY // 10)), "too long"),
        ("[[seat]]\n" * (MANY // 10), "too long"),
        ("".join(f"k{n}=1\n" for n in range(MANY // 10)), "too long"),
        (("a" + ".a" * MAX_DEPTH + " = 1\n") * (MANY // 50), "too long"),
        ("a = [" + "1," * MANY + "]", "too long"),
        ("\n" * MANY, "too long"),
        ("\r\n" * MANY, "too long"),
        ('"' * MANY, "too long"),
        ("'" * MANY, "too long"),
        ("a " * MANY, "not TOML"),
        ("#" * (1 << 20) + "\n", "larger than"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_a_file_beyond_any_settings_is_refused_before_it_is_parsed(
    load: Load, text: str, said: str
) -> None:
    assert said in refusal(load, text)


def test_a_full_panel_with_every_key_is_within_the_bounds(load: Load) -> None:
    keys = (
        'family = "f"\nprovider = "openai"\nbase_url = "http://h/v1"\nmodel = "m"\n'
        'api_key_env = "SOME_KEY"\ntemperature = 0.7\nsystem = """\na\nb\n"""\n'
        'roles = ["answer", "review", "chair"]\ntimeout_s = 60\nmax_concurrency = 16\n'
        "price_in = 3.0\nprice_out = 15.0\n"
    )
    text = "".join(f'[[seat]]\nname = "seat {n}"\n{keys}\n' for n in range(702))
    assert len(load(text).seats) == 702


def test_the_bound_on_depth_leaves_room_for_options(load: Load) -> None:
    key = ".".join("o" * (MAX_DEPTH - 1))
    text = '[[seat]]\nname = "a"\nprovider = "simulated"\noptions.' + key + " = 1"
    assert load(text).seats[0].options
    assert "too deeply nested" in refusal(load, text.replace("options.", "options.x.x."))


@given(st.text("[]{}=\"'.,#\n\\ \tab1-", max_size=200))
def test_any_text_can_be_searched_for_the_lines_of_keys(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())
    assert MAX_MARKS > 702 * 60


@pytest.mark.parametrize("text", ["a" * MANY, "a." * 20 + " " + "a" * MANY, '"' + "\\" * MANY])
def test_a_long_word_is_searched_in_linear_time(text: str) -> None:
    """A pattern that starts again at every letter would take hours here."""
    assert not KEY_LINE.match(text)
    assert not TOO_DEEP.search(text)


# -- text that is no text ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "environ",
    [
        {"PEERAGE_RULE": "\udcff"},
        {"PEERAGE_STORE": "sqlite:///\udcff"},
        {"PEERAGE_SEED": "\udcff"},
        {"PEERAGE_CHAIR": "a\udcff"},
        {"PEERAGE_RUBRIC": "\udcff"},
        {"PEERAGE_RUBRIC_BY_CATEGORY__CODE": "\udcff"},
        {"PEERAGE_RUBRIC_BY_CATEGORY__\udcff": "coding"},
        {"PEERAGE_RUBRIC__\udcff__DESCRIPTION": "x"},
        {"PEERAGE_COMMUNITY__SCALE": "\udcff"},
        {"PEERAGE_\udcff__X": "x"},
        {"PEERAGE_CONFIG": "\udcff"},
        {"PEERAGE_CONFIG": "a\0b"},
        {"PEERAGE_CONFIG": "a\nb"},
    ],
    ids=ascii,
)
def test_a_variable_that_is_no_text_is_refused_in_words_that_can_be_printed(
    load: Load, environ: dict[str, str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environ=environ)
    told = str(caught.value)
    assert told.isprintable()
    assert told.encode()


@pytest.mark.parametrize("raw", [b"a = '\xff'", b"\xed\xa0\x80 = 1", b'a = "\\ud800"', b"a\x00"])
def test_a_file_that_is_no_text_is_refused_with_its_line(load: Load, raw: bytes) -> None:
    assert "peerage.toml, line 2" in refusal(load, b"# first\n" + raw)


CONTROLS = ["\\u0000", "\\u001b[2J", "\\u0007", "\\u009b"]
INVISIBLE = ["\\u202e", "\\u200b", "\\u2028", "\\u00ad"]


LINES = [
    '[[seat]]\nname = "a{}"\nmodel = "m"',
    OPEN + 'family = "f{}"',
    OPEN + 'base_url = "http://host/{}"',
    '[[seat]]\nname = "a"\nmodel = "m{}"',
    'store = "sqlite:///{}.db"',
    'council.rule = "borda{}"',
    'council.chair = "a{}"\n' + OPEN,
    '[rubric_by_category]\n"a{}" = "coding"',
    '[rubric."x{}".weights]\naccuracy = 1',
]
PROSE = [OPEN + 'system = "s{}"', '[rubric.x]\ndescription = "{}"\nweights = {{accuracy = 1}}']


@pytest.mark.parametrize(
    ("text", "control"),
    [*itertools.product(LINES, CONTROLS + INVISIBLE), *itertools.product(PROSE, CONTROLS)],
)
def test_control_characters_are_refused_and_not_repeated(
    load: Load, text: str, control: str
) -> None:
    assert refusal(load, text.format(control + "z")).isprintable()


# -- names -------------------------------------------------------------------------------------


def test_names_are_trimmed_and_composed(load: Load) -> None:
    text = '[council]\nchair = "zoe\u0308"\n[[seat]]\nname = "  zoë "\nmodel = " m "'
    settings = load(text)
    assert settings.chair is not None
    assert (settings.seats[0].name, settings.seats[0].model) == ("zoë", "m")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "a "),
        ("a", "A"),
        ("é", "e\u0301"),
        ("straße", "STRASSE"),
        ("a", "ａ"),
        ("gpt 4", "GPT 4"),
    ],
)
def test_names_that_look_alike_are_one_name(load: Load, first: str, second: str) -> None:
    text = f'[[seat]]\nname = "{first}"\nmodel = "m"\n[[seat]]\nname = "{second}"\nmodel = "m"'
    assert "line 5, [[seat]] 2, name: the name" in refusal(load, text)


@pytest.mark.slow
@given(st.text(min_size=1, max_size=120))
def test_a_name_that_is_taken_is_short_printable_and_stays_the_same(load: Load, name: str) -> None:
    with contextlib.suppress(ConfigError):
        seats = [{"name": name, "provider": "simulated"}]
        taken = config.load(environ={}, flags={"seat": seats}).seats[0].name
        assert taken == unicodedata.normalize("NFC", taken).strip()
        assert taken.isprintable()
        assert 0 < len(taken) <= 100


@pytest.mark.parametrize("key", ["name", "provider", "family", "model", "base_url", "api_key_env"])
def test_no_line_of_a_seat_is_without_end(load: Load, key: str) -> None:
    table = {"name": "a", "model": "m"} | {key: "http://" + "x" * 3000}
    text = "[[seat]]\n" + "".join(f'{name} = "{value}"\n' for name, value in table.items())
    assert "characters long" in refusal(load, text)


# -- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e300", "-1e300", "1" + "0" * 30])
@pytest.mark.parametrize(
    "key",
    ["council.seed", "council.budget_usd", "council.deadline_s", "council.quorum",
     "council.safety_score_cap", "audit.length_correlation", "audit.position_variance",
     "audit.n_min.style", "audit.healthy.drift", "community.quality_weight",
     "community.affiliation_bonus_points", "community.min_reviews_required",
     "rubric.general.weights.accuracy"],
)  # fmt: skip
def test_no_number_is_beyond_all_measure(load: Load, key: str, number: str) -> None:
    assert f"line 1, [{key.rpartition('.')[0]}]" in refusal(load, f"{key} = {number}")
    assert "PEERAGE_" in refusal(
        load, environ={f"PEERAGE_{key.upper().replace('.', '__')}": number}
    )


@pytest.mark.parametrize("number", ["inf", "nan", "1e300", "1" + "0" * 30])
@pytest.mark.parametrize("key", ["timeout_s", "max_concurrency", "price_in", "price_out"])
def test_no_number_of_a_seat_is_beyond_all_measure(load: Load, key: str, number: str) -> None:
    assert f"line 4, [[seat]] 1, {key}" in refusal(load, f"{OPEN}{key} = {number}")


# -- keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "USER", "SHELL", "PWD", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH",
     "PYTHONSTARTUP", "SSH_AUTH_SOCK", "SSH_KEY", "DATABASE_URL", "PGPASSWORD", "PGPASSFILE",
     "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GIT_ASKPASS", "PEERAGE_STORE", "path",
     "HTTP_PROXY", "KEYBOARD", "MONKEY", "COMPAT", "GPG_TTY"],
)  # fmt: skip
def test_a_variable_that_is_no_models_key_is_not_sent_as_one(load: Load, name: str) -> None:
    told = refusal(load, f"{OPEN}api_key_env = '{name}'", {name: "hunter2"})
    assert "line 4, [[seat]] 1, api_key_env" in told
    assert "SOME_API_KEY" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "OPENROUTER_API_KEY", "SOME_KEY", "KEY", "API_KEY", "HF_TOKEN", "KEY1",
     "GITHUB_TOKEN", "GITHUB_PAT", "MY_APIKEY", "WATSONX_APIKEY", "OPENAI_API_KEY_2", "VLLM_SECRET",
     "AWS_BEARER_TOKEN_BEDROCK", "openai_api_key", "LITELLM_MASTER_KEY", "PROXY_PASSWORD",
     "AZURE_OPENAI_KEY_PROD", "LLM_CREDENTIALS"],
)  # fmt: skip
def test_the_names_that_people_give_keys_are_taken(load: Load, name: str) -> None:
    assert load(f"{OPEN}api_key_env = '{name}'").seats[0].api_key_env == name


# -- a file from somebody else's folder --------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of one's own with a peerage.toml in it."""
    (tmp_path / "peerage.toml").write_text('council.rule = "elo"', encoding="utf-8")
    (tmp_path / "peerage.toml").chmod(0o644)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_of_ones_own_needs_no_note(folder: Path) -> None:
    assert config.load(environ={}).notes == ()


@pytest.mark.parametrize(("what", "mode"), [("peerage.toml", 0o666), (".", 0o777)])
def test_a_file_that_others_may_write_is_named(folder: Path, what: str, mode: int) -> None:
    (folder / what).chmod(mode)
    (note,) = config.load(environ={}).notes
    assert str(folder / "peerage.toml") in note
    assert "others may write" in note


def test_a_folder_where_everybody_keeps_only_their_own_needs_no_note(folder: Path) -> None:
    folder.chmod(0o777 | stat.S_ISVTX)
    assert config.load(environ={}).notes == ()


def test_a_file_of_another_user_is_refused_and_a_folder_of_one_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:  # root's files are trusted, so another user's must be made
        os.chown(folder / "peerage.toml", 1234, -1)
    with pytest.raises(ConfigError, match=r"belongs to another user.*--config"):
        config.load(environ={})
    with pytest.raises(ConfigError, match="belongs to another user"):
        config.permissions(environ={})
    if owner == 0:
        os.chown(folder / "peerage.toml", 0, -1)
        os.chown(folder, 1234, -1)
        (note,) = config.load(environ={}).notes
        assert "another user owns its folder" in note


def test_a_file_that_was_asked_for_needs_no_note(folder: Path) -> None:
    (folder / "peerage.toml").chmod(0o666)
    assert config.load("peerage.toml", environ={}).notes == ()
    assert config.load(environ={"PEERAGE_CONFIG": "peerage.toml"}).notes == ()


def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path) -> None:
    (folder / "peerage.toml").unlink()
    os.mkfifo(folder / "peerage.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        config.load(environ={})


@pytest.mark.slow
def test_the_command_line_says_once_which_file_it_took(folder: Path) -> None:
    (folder / "peerage.toml").chmod(0o666)
    done = subprocess.run(
        [sys.executable, "-m", "peerage", "audit", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.stderr.count(f"peerage: the settings come from {folder / 'peerage.toml'}") == 1
    assert "settings come from" not in done.stdout
