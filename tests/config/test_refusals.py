"""What is refused, where it says so, and that no secret is ever repeated."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import config
from peerage.errors import ConfigError, UsageError, looks_like_key, shown
from peerage.stores import without_password

Load = Callable[..., config.Settings]

SEAT = '[[seat]]\nname = "a"\nprovider = "simulated"\n'
OPEN = '[[seat]]\nname = "a"\nmodel = "m"\n'
KEY = "sk-proj-0123456789abcdefABCDEF"


def refusal(load: Load, *args: Any, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*args, **more)
    assert caught.value.exit_code == 2
    return str(caught.value)


# -- files that are no settings ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[council\nrule", r"peerage\.toml, line 1, column 9: it is not TOML: "),
        (
            b"[council]\nrule = \n",
            r"peerage\.toml, line 2, column 8: it is not TOML: Invalid value\.",
        ),
        (b'a = 1\nrule = """', r"peerage\.toml, line 2: it is not TOML: "),
        (b"a = 1\na = 2\n", r"line 2, column 6: it is not TOML: Cannot overwrite a value"),
        (b"a = 1\n# caf\xe9\n", r"peerage\.toml, line 2: it is not UTF-8 text\. Save it as UTF-8"),
        (b"\x00\x01", "it is not TOML"),
        (b"a = " + b"[" * 50_000, "too deeply nested"),
        (b"council.seed = " + b"9" * 5_000, "too many digits"),
        (b"#" * (1 << 20) + b"\n", "larger than 1048576 bytes"),
    ],
    ids=["header", "value", "end", "twice", "latin-1", "binary", "deep", "digits", "large"],
)
def test_a_file_that_cannot_be_read_is_refused_by_line(load: Load, raw: bytes, said: str) -> None:
    assert re.search(said, refusal(load, raw))


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(is a directory\)"):
        config.load(tmp_path, environ={})


# -- keys and values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("storre = 'x'", "line 1, storre", "no such key. Did you mean 'store'?"),
        ("\n[council]\nrulle = 'x'", "line 3, [council] rulle", "Did you mean 'rule'?"),
        ("[concil]\nrule = 'x'", "line 1, [concil]", "Did you mean 'council'?"),
        ("[seats]\nname = 'x'", "line 1, [seats]", "Did you mean 'seat'?"),
        ("council.zzz = 1", "line 1, [council] zzz", "Known: audit, budget_usd, chair"),
        (
            SEAT + SEAT.replace('"a"', '"b"') + "modle = 'x'",
            "line 7, [[seat]] 2, modle",
            "'model'?",
        ),
        ("[audit.n_min]\nlenght = 1", "line 2, [audit.n_min] lenght", "Did you mean 'length'?"),
        ("[audit.healthy]\nnope = 1", "line 2, [audit.healthy] nope", "Known: agreement"),
        ("[community]\nscales = [1]", "line 2, [community] scales", "Did you mean 'scale'?"),
        ("council = 5", "line 1, council", "must be a table, not 5"),
        ("seat = 'x'", "line 1, seat", "must be a list, not 'x'"),
        ("seat = 5", "line 1, seat", "must be a list, not 5"),
        ("[seat]\nname = 'x'", "line 1, [seat]", "must be a list, not a table"),
        ("seat = [1]", "line 1, [[seat]] 1", "must be a table, not 1"),
        ("rubric_by_category = []", "line 1, rubric_by_category", "must be a table, not a list"),
        ("[[seat]]\nmodel = 'm'", "line 1, [[seat]] 1", "'name' is missing"),
        ("[[seat]]\nname = ''", "line 2, [[seat]] 1, name", "must not be empty"),
        ("[[seat]]\nname = 7", "line 2, [[seat]] 1, name", "must be text in quotes, not 7"),
        ("[[seat]]\nname = 'a'", "line 1, [[seat]] 1", "needs a model"),
        (OPEN.replace('"a"', '"a\\nb"'), "line 2, [[seat]] 1, name", "one line"),
        (SEAT + SEAT, "line 5, [[seat]] 2, name", "the name 'a' is already used by [[seat]] 1"),
        (SEAT + "roles = []", "line 4, [[seat]] 1, roles", "no role is given"),
        (SEAT + "roles = ['reviw']", "line 4, [[seat]] 1, roles", "Did you mean 'review'?"),
        (SEAT + "roles = ['review', 'review']", "line 4, [[seat]] 1, roles", "given twice"),
        (SEAT + "roles = ['chair']", "line 1, seat", "no seat answers or reviews"),
        (SEAT + "temperature = 2.5", "line 4, [[seat]] 1, temperature", "at most 2, not 2.5"),
        (SEAT + "temperature = -1", "line 4, [[seat]] 1, temperature", "at least 0, not -1"),
        (SEAT + "temperature = true", "line 4, [[seat]] 1, temperature", "a number, not true"),
        (SEAT + "timeout_s = 0", "line 4, [[seat]] 1, timeout_s", "more than 0, not 0"),
        (SEAT + "timeout_s = inf", "line 4, [[seat]] 1, timeout_s", "finite number, not inf"),
        (SEAT + "timeout_s = '60'", "line 4, [[seat]] 1, timeout_s", "a number, not '60'"),
        (SEAT + "max_concurrency = 0", "line 4, [[seat]] 1, max_concurrency", "at least 1, not 0"),
        (SEAT + "max_concurrency = 1.5", "line 4, [[seat]] 1, max_concurrency", "whole number"),
        (SEAT + "price_in = -0.1", "line 4, [[seat]] 1, price_in", "at least 0, not -0.1"),
        (SEAT + "price_out = nan", "line 4, [[seat]] 1, price_out", "finite number, not nan"),
        (SEAT + "options = {a = [1, nan]}", "line 4, [[seat]] 1, options.a", "finite number"),
        (SEAT + "[seat.options]\nx = 1979-05-27", "line 5, [[seat]] 1, options.x", "dates"),
        (OPEN + "base_url = 'localhost:80'", "line 4, [[seat]] 1, base_url", "http or https URL"),
        (OPEN + "base_url = 'http://h:x'", "line 4, [[seat]] 1, base_url", "http or https URL"),
        (OPEN + "base_url = 'http://[::1'", "line 4, [[seat]] 1, base_url", "http or https URL"),
        ("store = ''", "line 1, store", "must not be empty"),
        ("store = 'peerage.db'", "line 1, store", "must be a URL. As in sqlite:///"),
        ("store = 1", "line 1, store", "must be text in quotes"),
        ("council.own_votes = 'ot'", "line 1, [council] own_votes", "Did you mean 'out'?"),
        ("council.order = 'random'", "line 1, [council] order", "must be 'balanced', 'shuffle' or"),
        ("council.order = 7", "line 1, [council] order", "not 7"),
        ("council.verdict = 'tie'", "line 1, [council] verdict", "not 'tie'"),
        ("council.rule = false", "line 1, [council] rule", "must be text in quotes, not false"),
        ("council.rubric = true", "line 1, [council] rubric", "name of a rubric, or false"),
        ("council.rubric = ''", "line 1, [council] rubric", "name of a rubric, or false"),
        ("council.rubric = 'codign'", "line 1, [council] rubric", "Did you mean 'coding'?"),
        ("council.audit = 'yes'", "line 1, [council] audit", "true or false, not 'yes'"),
        ("council.audit = 1", "line 1, [council] audit", "true or false, not 1"),
        ("council.seed = true", "line 1, [council] seed", "whole number, not true"),
        ("council.seed = 7.0", "line 1, [council] seed", "whole number, not 7.0"),
        ("council.budget_usd = -1", "line 1, [council] budget_usd", "at least 0, not -1"),
        ("council.budget_usd = inf", "line 1, [council] budget_usd", "finite number"),
        ("council.budget_usd = 1" + "0" * 400, "line 1, [council] budget_usd", "a huge integer"),
        ("council.budget_usd = '2'", "line 1, [council] budget_usd", "a number, not '2'"),
        ("council.safety_score_cap = 11", "line 1, [council] safety_score_cap", "at most 10"),
        ("council.rounds = 3", "line 1, [council] rounds", "at most 2, not 3"),
        ("council.quorum = 0", "line 1, [council] quorum", "at least 1, not 0"),
        ("council.quorum = 2\n" + SEAT, "line 1, [council] quorum", "seats that answer is 1"),
        ("council.deadline_s = 0", "line 1, [council] deadline_s", "more than 0"),
        ("council.chair = 'b'\n" + SEAT, "line 1, [council] chair", "'b' is not a seat. Known: a"),
        ("council.chair = 'b'", "line 1, [council] chair", "There are no [[seat]] tables"),
        ("[rubric_by_category]\ncode = 'codign'", "line 2, [rubric_by_category] code", "'coding'?"),
        ("[rubric_by_category]\ncode = false", "line 2, [rubric_by_category] code", "in quotes"),
        ("[audit]\nlength_correlation = 1.1", "line 2, [audit] length_correlation", "at most 1"),
        ("[audit]\nlength_correlation = -1", "line 2, [audit] length_correlation", "at least 0"),
        ("[audit]\nposition_variance = -1", "line 2, [audit] position_variance", "at least 0"),
        ("[audit]\nposition_variance = nan", "line 2, [audit] position_variance", "finite"),
        ("[audit.n_min]\nstyle = 0", "line 2, [audit.n_min] style", "at least 1"),
        ("[audit.healthy]\nagreement = 2", "line 2, [audit.healthy] agreement", "at most 1"),
        ("[community]\nscale = [1, -1]", "line 2, [community] scale", "in rising order"),
        ("[community]\nscale = [1]", "line 2, [community] scale", "two or more numbers"),
        ("[community]\nscale = [1, 1]", "line 2, [community] scale", "in rising order"),
        ("[community]\nscale = [1, true]", "line 2, [community] scale", "a number, not true"),
        ("[community]\nscale = [1, nan]", "line 2, [community] scale", "finite"),
        ("[community]\nmin_reviews_required = 0", "line 2, [community] min_rev", "at least 1"),
        ("[community]\nquality_weight = -1", "line 2, [community] quality_weight", "at least 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line_its_key_and_why(
    load: Load, text: str, place: str, said: str
) -> None:
    told = refusal(load, text)
    assert f"peerage.toml, {place}" in told
    assert said in told
    assert "\n" not in told


def test_more_seats_than_labels_are_refused(load: Load) -> None:
    text = "".join(SEAT.replace('"a"', f'"s{n}"') for n in range(703))
    assert "more than 702 seats" in refusal(load, text)


# -- several at once ---------------------------------------------------------------------------


def test_problems_of_every_kind_are_told_together(load: Load) -> None:
    text = "[council]\nrulle = 'x'\nchair = 'zoe'\n" + SEAT + "[audit]\nposition_variance = -1\n"
    told = refusal(
        load, text, {"PEERAGE_SEDE": "7", "PEERAGE_ROUNDS": ""}, {"council.ordr": "shared"}
    )
    assert told.startswith("configuration: 6 things are wrong.\n")
    for part in (
        "line 2, [council] rulle: there is no such key.",
        "line 3, [council] chair: the chair 'zoe' is not a seat.",
        "line 8, [audit] position_variance: must be at least 0",
        "PEERAGE_SEDE: there is no such variable. Did you mean PEERAGE_SEED?",
        "PEERAGE_ROUNDS: it is set but empty.",
        "option council.ordr: there is no such setting. Did you mean 'council.order'?",
    ):
        assert part in told


def test_a_broken_table_is_not_blamed_for_what_hangs_on_it(load: Load) -> None:
    told = refusal(load, "council.chair = 'a'\n" + SEAT + "timeout_s = 0")
    assert "is not a seat" not in told


def test_after_ten_problems_the_rest_is_counted(load: Load) -> None:
    told = refusal(load, "".join(f"zz{n} = 1\n" for n in range(13)))
    assert told.startswith("configuration: 13 things are wrong.")
    assert told.endswith("and 3 more.")
    assert len(told.splitlines()) == 12


# -- the environment and flags -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"PEERAGE_STORE": ""}, "PEERAGE_STORE: it is set but empty."),
        ({"PEERAGE_CONFIG": " "}, "PEERAGE_CONFIG: it is set but empty."),
        ({"LLM_COUNCIL_RANDOM_SEED": " "}, "LLM_COUNCIL_RANDOM_SEED: it is set but empty."),
        ({"LLM_COUNCIL_RANDOM_SEED": "x"}, "must be a whole number, not 'x'"),
        ({"LLM_COUNCIL_BIAS_AUDIT": "maybe"}, "must be true or false, not 'maybe'"),
        ({"LLM_COUNCIL_SAFETY_SCORE_CAP": "11"}, "must be at most 10"),
        ({"LLM_COUNCIL_SAFETY_SCORE_CAP": "nan"}, "must be a finite number"),
        ({"LLM_COUNCIL_LENGTH_CORRELATION_THRESHOLD": "3"}, "must be at most 1"),
        (
            {"LLM_COUNCIL_WEIGHT_ACCURACY": "0"},
            "LLM_COUNCIL_WEIGHT_ACCURACY: a weight must be more",
        ),
        ({"LLM_COUNCIL_WEIGHT_ACURACY": "0.3"}, "Did you mean LLM_COUNCIL_WEIGHT_ACCURACY?"),
        ({"PEERAGE_RULES": "elo"}, "Did you mean PEERAGE_RULE?"),
        ({"PEERAGE_COUNCIL_RULE": "elo"}, "Did you mean PEERAGE_COUNCIL__RULE?"),
        ({"PEERAGE_rule": "elo"}, "Did you mean PEERAGE_RULE?"),
        ({"PEERAGE_BUDGET": "2"}, "Did you mean PEERAGE_BUDGET_USD?"),
        ({"PEERAGE_CONFG": "x"}, "Did you mean PEERAGE_CONFIG?"),
        ({"PEERAGE_SEAT__0__MODEL": "x"}, "Seats and whole tables are set in peerage.toml"),
        ({"PEERAGE_SEATS": "x"}, "Seats and whole tables are set in peerage.toml"),
        ({"PEERAGE_COUNCIL": "x"}, "Seats and whole tables are set in peerage.toml"),
        ({"PEERAGE_RULE": "elo", "PEERAGE_COUNCIL__RULE": "borda"}, "have different values"),
        ({"PEERAGE_COMMUNITY__SCALE": "a, b"}, "must be a list"),
        ({"PEERAGE_COMMUNITY__SCALE": "[" * 9999}, "must be a list"),
        ({"PEERAGE_RUBRIC": "codign"}, "PEERAGE_RUBRIC: there is no rubric 'codign'"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused_by_name(
    environ: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environ=environ)
    assert said in str(caught.value)
    assert all(name in str(caught.value) for name in environ)


def test_a_flag_of_the_wrong_type_is_refused_by_its_name(load: Load) -> None:
    told = refusal(load, flags={"council.rounds": "three"})
    assert told == "option council.rounds: must be a whole number, not 'three'."


def test_the_source_that_had_the_last_word_is_the_one_blamed(load: Load) -> None:
    told = refusal(load, "council.rounds = 1", {"PEERAGE_ROUNDS": "5"})
    assert told == "PEERAGE_ROUNDS: must be at most 2, not 5."


# -- secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        OPEN + f"api_key_env = '{KEY}'",
        OPEN + "api_key_env = 'sk_live_0123456789abcdefABCDEF'",
        OPEN + "api_key_env = 'abcdef0123456789abcdef0123456789'",
        OPEN + "api_key_env = 'not a name'",
        OPEN + f"api_key_env = ['{KEY}']",
        OPEN + f"api_key = '{KEY}'",
        OPEN + f"'{KEY}' = 1",
        OPEN + f"temperature = '{KEY}'",
        OPEN + f"roles = ['Bearer {KEY}']",
        OPEN + f"base_url = 'https://me:{KEY}@host/v1'",
        OPEN + f"base_url = 'https://host/v1?api_key={KEY}'",
        OPEN + f"base_url = '{KEY}'",
        SEAT + f"options = {{headers = {{Authorization = '{KEY}'}}}}",
        SEAT + "options = {api_key = 'hunter2'}",
        SEAT + f"options = {{x = ['y'], z = '{KEY}'}}",
        SEAT + f"options = '{KEY}'",
        f"'{KEY}' = 1",
        f"store = '{KEY}'",
        f"store = ['postgresql://me:{KEY}@host']",
        f"council.rubric = '{KEY}'",
        f"council.order = '{KEY}'",
        f"council.chair = '{KEY}'\n{SEAT}",
        f"[rubric_by_category]\ncode = '{KEY}'",
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_never_repeated(load: Load, text: str) -> None:
    told = refusal(load, text)
    for secret in (KEY, "0123456789abcdef", "hunter2", "not a name"):
        assert secret not in told


def test_a_secret_in_a_variable_is_never_repeated(load: Load) -> None:
    told = refusal(load, environ={"PEERAGE_SEED": KEY, "PEERAGE_ORDER": KEY, "PEERAGE_STORE": KEY})
    assert KEY not in told


@pytest.mark.parametrize(
    "text", ["hf-SmolLM2-135M-Instruct", "some-model", "claude-opus-4-20250514"]
)
def test_the_names_of_models_are_not_taken_for_keys(load: Load, text: str) -> None:
    assert not looks_like_key(text)
    assert load(SEAT + f"model = '{text}'\noptions = {{like = '{text}'}}").seats[0].model == text


def test_options_that_only_sound_like_secrets_are_kept(load: Load) -> None:
    text = SEAT + "options = {max_tokens = 5, tokenizer = 't', stop_token = '</s>', key = 'C'}"
    assert len(load(text).seats[0].options) == 4


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.just(10**9999)))
def test_what_is_repeated_is_short_and_on_one_line(value: object) -> None:
    told = shown(value)
    assert len(told) <= 61
    assert "\n" not in told


# -- totality ----------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["store", "council", "seat", "rubric", "rubric_by_category", "audit", "community", "n_min",
     "healthy", "rule", "scale", "name", "weights", "accuracy", "ceilings", "dimension", "anchors",
     "question", "options", "roles", "general", "x", "", "é"]
)  # fmt: skip
LEAVES = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.text(max_size=5), WORDS, st.just(10**400)
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(WORDS, TREES, max_size=4))
def test_any_tree_becomes_settings_or_one_refusal(tree: dict[str, Any]) -> None:
    flags = {name: value for name, value in tree.items() if name in config.Settings.model_fields}
    with contextlib.suppress(ConfigError):
        config.load(environ={}, flags=flags)


def as_toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)} = {as_toml(inner)}" for name, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


@given(st.lists(st.tuples(WORDS, TREES, st.booleans()), max_size=6))
def test_any_file_becomes_settings_or_one_refusal(
    load: Load, parts: list[tuple[str, Any, bool]]
) -> None:
    text = ""
    for name, tree, is_array in parts:
        if isinstance(tree, dict):
            text += f"[[{name}]]\n" if is_array else f"[{name}]\n"
            text += "".join(
                f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in tree.items()
            )
        else:
            text = f"{name} = {as_toml(tree)}\n{text}"
    with contextlib.suppress(ConfigError):
        load(text)


@given(st.binary(max_size=60) | st.text("[]{}=\"'.,#\n\\ abseat1-", max_size=60).map(str.encode))
def test_any_bytes_become_settings_or_one_refusal(load: Load, raw: bytes) -> None:
    with contextlib.suppress(ConfigError):
        load(raw)


# -- keys in the place of names ----------------------------------------------------------------

NAMED = (
    '[[seat]]\nname = "{name}"\nprovider = "simulated"\nmodel = "{model}"\nfamily = "{family}"\n'
)
PLAIN = {"name": "a", "model": "m", "family": "f"}


@pytest.mark.parametrize("within", ["{}", "x {}", "x:{}", "gpt/{}"])
@pytest.mark.parametrize(
    "text",
    [
        *(NAMED.format(**{**PLAIN, name: "KEY"}) for name in PLAIN),
        OPEN + 'base_url = "https://x.example/v1/KEY/chat"\n',
        OPEN + 'base_url = "https://x.example/v1?deployment=KEY"\n',
        'store = "sqlite:///KEY.db"\n' + SEAT,
        'store = "postgresql://user:KEY@host/db"\n' + SEAT,
        '[council]\nrule = "KEY"\n' + SEAT,
        '[council]\nmoderator = "KEY"\n' + SEAT,
        '[council]\nrubric = "KEY"\n' + SEAT,
        '[council]\nchair = "KEY"\n' + SEAT,
        '[rubric_by_category]\n"KEY" = "general"\n' + SEAT,
    ],
)
def test_a_key_in_the_place_of_a_name_is_refused_and_not_repeated(load, text, within):
    message = refusal(load, text.replace("KEY", within.format(KEY)))
    assert KEY not in message
    assert "key" in message


@pytest.mark.parametrize("name", ["task-description-writer", "risk_assessment_model", "gpt-5-mini"])
def test_a_name_that_only_contains_the_letters_of_a_key_is_a_name(load, name):
    settings = load(NAMED.format(**{**PLAIN, "name": name, "model": name}))
    assert settings.seats[0].name == name


def test_no_error_repeats_a_key_wherever_it_stands():
    error = UsageError(f"there is no rule {KEY!r}.", place=f"x/{KEY}.db", hint=f"Known: {KEY}.")
    for text in (str(error), error.message, error.place, error.hint):
        assert KEY not in text
        assert "not shown" in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter22@h/db",
        "postgresql+psycopg://u:hunter22@h/db",
        "postgresql://u:p@hunter22@h/db",
        "postgresql://h/db?password=hunter22",
        "postgresql://h/db?sslpassword=hunter22&x=1",
    ],
)
def test_a_store_is_shown_without_its_password(url):
    assert "hunter22" not in without_password(url)


# -- files that are no files -------------------------------------------------------------------


def test_settings_are_not_read_from_a_pipe_that_nobody_writes_to(load, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="a pipe, not a file"):
        config.load(tmp_path / "pipe")
