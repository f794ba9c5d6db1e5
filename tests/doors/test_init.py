"""`peerage init`: a file that loads, for what is there, and never over another."""

import json
import tomllib
from importlib.resources import files

import pytest

from peerage import config
from peerage.doors.cli.setup_commands import _server_seats, starter
from peerage.errors import ConfigError
from peerage.panel import Council
from peerage.providers.model_servers import ModelServer
from peerage.providers.money import price_of
from peerage.seating import how_to_seat, panel_fault
from peerage.types import Seat

KEYS = {"OPENAI_API_KEY": "sk-not-a-real-key-1234567890", "GEMINI_API_KEY": "another-0123456789"}


def test_keys_become_seats_that_load_and_no_key_is_written(peerage, tmp_path):
    done = peerage("init", "--json", **KEYS)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "peerage.toml").read_text()
    settings = config.load(tmp_path / "peerage.toml", environ={})
    names = [seat.name for seat in settings.seats]
    assert json.loads(done.stdout) == {"file": "peerage.toml", "seats": names}
    assert {"gpt", "gpt-mini", "gemini-pro", "gemini-flash"} <= set(names)
    assert not any(key in text for key in KEYS.values())


def test_a_file_that_is_there_stays_as_it_is(peerage, tmp_path):
    (tmp_path / "peerage.toml").write_text("# mine\n")
    done = peerage("init")
    assert done.returncode == 2
    assert "peerage.toml: the file already exists" in done.stderr
    assert "peerage doctor" in done.stderr
    assert (tmp_path / "peerage.toml").read_text() == "# mine\n"
    assert peerage("init", "--config", "none/here.toml").returncode == 2


def test_the_file_that_init_wrote_for_nothing_is_replaced_once_there_is_something(
    peerage, tmp_path
):
    file = tmp_path / "peerage.toml"
    file.write_text(starter({}))
    assert peerage("init", **KEYS).returncode == 0
    assert config.load(file, environ={}).seats
    assert peerage("init", **KEYS).returncode == 2


def test_a_misspelt_provider_or_option_is_told_with_its_line_and_the_right_word(tmp_path):
    file = tmp_path / "peerage.toml"
    file.write_text(
        '[[seat]]\nname = "a"\nprovider = "simulatd"\n\n'
        '[[seat]]\nname = "b"\nprovider = "simulated"\noptions = { qualty = 3 }\n'
    )
    with pytest.raises(ConfigError) as caught:
        Council.from_config(file)
    one, other = str(caught.value).splitlines()[1:]
    assert "line 1, seat a: there is no provider 'simulatd'. Did you mean 'simulated'?" in one
    assert "line 5, seat b" in other
    assert "Did you mean 'quality'?" in other


def test_servers_get_a_seat_for_each_model_or_each_temperature():
    many = ModelServer("Ollama", "http://127.0.0.1:11434/v1", ("a/qwen", "b/qwen", "c", "d"))
    assert [seat["name"] for seat in _server_seats(many, set())] == ["qwen", "qwen-2", "c"]
    lone = ModelServer("vLLM", "http://127.0.0.1:8000/v1", ("org/m",))
    seats = _server_seats(lone, {"gpt"})
    assert [(seat["name"], seat["temperature"]) for seat in seats] == [
        ("m", 0.2),
        ("m-2", 0.7),
        ("m-3", 1.0),
    ]
    assert [seat["name"] for seat in _server_seats(lone, {"a", "b", "c"})] == ["m"]


def test_a_server_of_two_models_gets_a_panel_whose_votes_count():
    two = ModelServer("Ollama", "http://127.0.0.1:11434/v1", ("llama", "qwen"))
    assert [(seat["name"], seat["temperature"]) for seat in _server_seats(two, set())] == [
        ("llama", 0.2),
        ("qwen", 0.7),
        ("llama-2", 1.0),
    ]
    assert [seat["name"] for seat in _server_seats(two, {"gpt"})] == ["llama", "qwen"]


def vendor_seats():
    vendors = tomllib.loads((files("peerage.config") / "default_seats.toml").read_text())["vendor"]
    return [Seat(**seat, base_url=v["base_url"]) for v in vendors for seat in v["seats"]]


@pytest.mark.parametrize("seat", vendor_seats(), ids=lambda seat: f"{seat.base_url} {seat.model}")
def test_the_price_of_every_seat_for_a_key_is_known(seat):
    assert price_of(seat) is not None


def seat_tables(text):
    """The parts of a starter file that begin with [[seat]], comments taken as they stand."""
    return text.split("[[seat]]\n")[1:]


def test_a_seat_whose_price_is_not_known_says_how_to_give_one():
    server = ModelServer("vLLM", "http://127.0.0.1:8000/v1", ("org/m",))
    text = starter({"vLLM": _server_seats(server, set())})
    written = text.split("# Any OpenAI-compatible endpoint")[0]
    assert all("# price_in = 0.0" in table for table in seat_tables(written))
    assert all("# price_out = 0.0" in table for table in seat_tables(written))


def test_the_examples_are_seats_of_known_price_whose_votes_count(tmp_path):
    examples = starter({}).split("best together:\n")[1].replace("\n# ", "\n").replace("\n#", "\n")
    (tmp_path / "peerage.toml").write_text(examples)
    settings = config.load(tmp_path / "peerage.toml", environ={})
    assert [price_of(seat) is not None for seat in settings.seats] == [True, True, True]
    assert not panel_fault(settings)


@pytest.mark.parametrize("odd", ['quo"te', "back\\slash", "a b#c"])
def test_a_starter_with_any_name_loads(tmp_path, odd):
    server = ModelServer("x", "http://127.0.0.1:1/v1", (odd, "second"))
    file = tmp_path / "peerage.toml"
    file.write_text(starter({"x": _server_seats(server, set())}))
    assert [seat.model for seat in config.load(file, environ={}).seats] == [odd, "second", odd]


def test_with_nothing_found_the_examples_are_comments(tmp_path):
    (tmp_path / "peerage.toml").write_text(starter({}))
    assert not config.load(tmp_path / "peerage.toml", environ={}).seats
    assert "# [[seat]]" in starter({})


def test_who_has_a_file_without_seats_is_sent_to_that_file(tmp_path):
    file = tmp_path / "team.toml"
    file.write_text(starter({}))
    read = config.load(file, environ={})
    for settings in (read, config.with_flags(read, {"council.seed": 1})):
        assert how_to_seat(settings).startswith(f"Add a [[seat]] to {file}.")
    with pytest.raises(ConfigError, match=r"Add a \[\[seat\]\] to"):
        Council(read, store="sqlite:///:memory:")
    assert how_to_seat(config.Settings()).startswith("To create a peerage.toml: `peerage init`")
