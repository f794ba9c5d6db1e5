"""The user's consent to what a `peerage.toml` found in a folder does beyond configuring.

A cloned repository can bring such a file. Therefore three things in it need consent once: running
a program, using a store on another host, and calling a host that is neither this machine nor a
vendor's. A file that the user names needs none.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl

from peerage.config.settings import CouncilSettings, SeatTable, Settings
from peerage.config.sources import Merged, value_at
from peerage.errors import ConfigError, KeyPath, how_many
from peerage.hosts import KEY_NAMES, OPENAI_URL, is_host_of, is_this_machine, without_password
from peerage.text import visible
from peerage.types import DECISIONS

Kind = Literal["command", "host", "login", "plug-in", "site", "store"]

ALLOW = "To allow it in this folder: peerage trust. To use another file: --config FILE."
HTTP_PROVIDERS = ("openai", DECISIONS)
INSIDE = ("simulated", "local")  # providers that run in this process and call no host
MAX_BYTES = 1 << 22
VERSION = 1

ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+|\[[0-9a-f:.]+\])(?P<port>:\d{1,5})?"
    r"(?:[/?][^\s\\#]*)?",
    re.IGNORECASE,
)
# Only a URL of this form may count as one of this machine: libpq reads other URLs in its own way.
POSTGRES = re.compile(
    r"postgres(?:ql)?://(?:[^@/?#\\]*@)?(?P<hosts>[\w.,:\[\]-]*)(?:/[\w.-]*)?(?:\?(?P<query>[^@#]*))?"
)
HARMLESS = frozenset({"application_name", "connect_timeout", "sslmode"})  # parameters of libpq
PORT = re.compile(r":\d*\Z")


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One thing that needs consent: the words of a command, an address, or a plug-in's name."""

    kind: Kind
    words: tuple[str, ...]
    variables: tuple[str, ...] = ()  # those whose values it gets

    def __str__(self) -> str:
        """Return what the file wants to do, as the rest of a sentence."""
        sentence, given = SENTENCES[self.kind], ""
        if self.variables:
            given = f" with the value of {' and '.join(self.variables)}"
        words = shlex.join(self.words) if self.kind == "command" else " ".join(self.words)
        return visible(sentence.format(words) + given)


SENTENCES: Mapping[Kind, str] = {
    "command": "run `{}`",
    "host": "call {}",
    "login": "let people log in at {}",
    "plug-in": "use the plug-in {}",
    "site": "let pages of {} use the server",
    "store": "use the store {}",
}


class ConsentError(ConfigError):
    """A file found in a folder wants to do things that the user has not allowed there."""

    def __init__(self, file: Path, missing: Collection[Permission], trouble: str = "") -> None:
        self.folder, self.missing = folder_of(file), tuple(missing)
        first, *more = map(str, missing)
        others = f", and {how_many(len(more), 'more thing')}" if more else ""
        message = f"this folder's {file.name} wants to {first}{others}."
        super().__init__(message, place=visible(str(file)), hint=f"{ALLOW} {trouble}".strip())


# -- what each key may do ----------------------------------------------------------------------


def _of_store(settings: Settings) -> Iterator[Permission]:
    yield from _store_permissions(settings.store)


def _of_moderator(settings: Settings) -> Iterator[Permission]:
    """Yield a moderator of another package: it may send answers to a service."""
    if settings.council.moderator != CouncilSettings().moderator:
        yield Permission("plug-in", ("moderator", settings.council.moderator))


def _of_login(settings: Settings) -> Iterator[Permission]:
    if settings.oidc.issuer:
        secret = settings.oidc.client_secret_env
        address, is_near = origin_of(settings.oidc.issuer)
        if not is_near:
            yield Permission("login", (address,), (secret,) if secret else ())


def _of_sites(settings: Settings) -> Iterator[Permission]:
    for origin in settings.server.cors_origins:
        yield Permission("site", (origin,))


def _of_seats(settings: Settings) -> Iterator[Permission]:
    for seat in settings.seat:
        if seat.provider == "command":
            yield Permission("command", seat.command, tuple(sorted(set(seat.pass_env))))
        elif seat.provider == "replay":
            yield from _store_permissions(str(seat.options.get("store", "")))
        elif seat.provider in HTTP_PROVIDERS:
            if not is_own_address(seat):
                yield Permission("host", (origin_of(seat.base_url)[0],), _variables(seat))
        elif seat.provider not in INSIDE:  # of another package, with options only that knows
            words = [seat.provider, origin_of(seat.base_url)[0] if seat.base_url else ""]
            words.append(json.dumps(dict(seat.options), sort_keys=True) if seat.options else "")
            yield Permission("plug-in", ("provider", *filter(None, words)), _variables(seat))


Find = Callable[[Settings], Iterator[Permission]]

# Every key of the settings, with what finds the things in it that need consent; None: it only
# configures, and reaches no program, host or credential.
KEYS: Mapping[str, Find | None] = {
    "store": _of_store,
    "council.moderator": _of_moderator,
    "oidc.issuer": _of_login,
    "oidc.client_secret_env": _of_login,
    "server.cors_origins": _of_sites,
    **dict.fromkeys(
        (
            *("seat.provider", "seat.base_url", "seat.api_key_env", "seat.command"),
            *("seat.pass_env", "seat.options"),
        ),
        _of_seats,
    ),
    **dict.fromkeys(
        (
            *("data", "lease_s", "rubric_by_category"),
            # rules, rubrics and thresholds compute; texts and names are data
            *("council.rule", "council.rubric", "council.own_votes", "council.review"),
            *("council.order", "council.seed", "council.safety_gate", "council.safety_score_cap"),
            *("council.seal", "council.second_chance", "council.structured_answers"),
            *("council.audit", "council.soft_votes", "council.verdict", "council.budget_usd"),
            *("council.quorum", "council.chair", "council.rounds", "council.early_stop"),
            "council.deadline_s",
            *("rubric.weights", "rubric.ceilings", "rubric.description"),
            *("rubric.dimension.question", "rubric.dimension.anchors"),
            *("audit.length_correlation", "audit.position_variance", "audit.n_min"),
            "audit.healthy",
            *("community.affiliation_bonus_points", "community.min_reviews_for_quality"),
            *("community.min_reviews_required", "community.quality_weight"),
            *("community.reputation_weight", "community.reputation_cap", "community.scale"),
            # a seat's address and variable are above; these go into its requests, or limit them
            *("seat.name", "seat.model", "seat.family", "seat.temperature", "seat.system"),
            *("seat.roles", "seat.timeout_s", "seat.max_tokens", "seat.max_tokens_review"),
            *("seat.reasoning_effort", "seat.max_concurrency", "seat.price_in", "seat.price_out"),
            *("seat.dialect", "seat.price_call", "seat.batch", "seat.batch_price", "seat.images"),
            # who may log in, once the issuer is allowed
            *("oidc.name", "oidc.client_id", "oidc.domains", "oidc.role", "oidc.role_claim"),
            "oidc.roles",
            "panel.seats",
            *("batch.size", "batch.failures", "batch.gather_s", "batch.poll_s"),
            *("server.quick_seat", "server.short_calls"),
        )
    ),
}


def is_own_address(seat: SeatTable) -> bool:
    """Return whether a seat calls only this machine, or a vendor with one of the vendor's keys."""
    address = ADDRESS.fullmatch(seat.base_url or OPENAI_URL)
    if address is None:
        return False
    host = address["host"].lower()
    if is_this_machine(host):
        return True
    owners = [vendor for vendor, names in KEY_NAMES.items() if seat.api_key_env in names]
    vendors = vendors_at(seat.base_url or OPENAI_URL)
    return bool(vendors) and (not owners or not set(vendors).isdisjoint(owners))


def vendors_at(url: str) -> list[str]:
    """Return the vendors whose host an https address names."""
    address = ADDRESS.fullmatch(url)
    if address is None or address["scheme"].lower() != "https":
        return []
    return [vendor for vendor in KEY_NAMES if is_host_of(address["host"].lower(), vendor)]


def _variables(seat: SeatTable) -> tuple[str, ...]:
    return (seat.api_key_env,) if seat.api_key_env else ()


def origin_of(url: str) -> tuple[str, bool]:
    """Return the scheme, host and port of an address, and whether it is this machine's own.

    An address that is not written plainly is returned whole, and counts as another host's.
    """
    address = ADDRESS.fullmatch(url)
    if address is None:
        return url, False
    host = address["host"].lower()
    return f"{address['scheme'].lower()}://{host}{address['port'] or ''}", is_this_machine(host)


def _store_permissions(url: str) -> Iterator[Permission]:
    """Yield a store, unless it is a file, or a database of this machine."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme == "sqlite":
        return
    parts = POSTGRES.fullmatch(url)
    query = parse_qsl(parts["query"] or "", keep_blank_values=True) if parts else []
    sockets = [value for name, value in query if name == "host"]
    others = {name for name, _ in query} - HARMLESS - {"host"}
    if parts is None or others or not all(map(_is_socket, sockets)):
        yield Permission("store", (without_password(url),))
        return
    hosts = parts["hosts"].split(",")
    if not all(is_this_machine(PORT.sub("", host)) for host in hosts if PORT.sub("", host)):
        yield Permission("store", (f"postgresql://{parts['hosts']}",))


def _is_socket(path: str) -> bool:
    """Return whether a database's host is the folder of a socket, and nothing more."""
    return path.startswith("/") and "," not in path


# -- consent -----------------------------------------------------------------------------------


def permissions_of(merged: Merged, settings: Settings) -> list[Permission]:
    """Return what a settings file does that needs consent; variables and flags need none."""
    needed: set[Permission] = set()
    for find in dict.fromkeys(filter(None, KEYS.values())):
        keys = [key for key in KEYS if KEYS[key] is find]
        if any(_is_from_file(merged, key) for key in keys):
            needed.update(find(settings))
    return sorted(needed)


def _is_from_file(merged: Merged, key: str) -> bool:
    """Return whether the file sets a key, and neither a variable nor a flag overrides it."""
    path: KeyPath = tuple(key.split("."))
    if isinstance(value_at(merged.tree, path[:1]), list):
        path = path[:1]  # an array of tables is set as a whole
    return value_at(merged.tree, path) is not None and path not in merged.override_by_path


def check_consent(
    merged: Merged, settings: Settings, file: Path, environ: Mapping[str, str]
) -> None:
    """Raise an error if a file does something that the user has not allowed in its folder."""
    needed = permissions_of(merged, settings)
    if not needed:
        return
    try:
        allowed, trouble = read_consents(environ).get(folder_of(file), frozenset()), ""
    except ConfigError as error:
        allowed, trouble = frozenset(), f"No consent could be read: {error}"
    missing = [one for one in needed if one not in allowed]
    if missing:
        raise ConsentError(file, missing, trouble)


def folder_of(file: Path) -> str:
    """Return the real path of the folder of a file, for which consent is kept."""
    return os.path.realpath(file.absolute().parent)


def consent_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file of the user's consents, in the user's own configuration folder.

    A relative path in the variable is ignored: it would name a folder in the working folder.
    """
    variable = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    base = Path(environ.get(variable, ""))
    try:
        folder = base if base.is_absolute() else Path.home() / ".config"
    except RuntimeError:
        raise ConfigError("this user has no home folder.", hint="Name a file: --config.") from None
    return folder / "peerage" / "trust.json"


def read_consents(environ: Mapping[str, str] = os.environ) -> dict[str, frozenset[Permission]]:
    """Return what the user has allowed, by folder; a file that cannot be read is an error."""
    path = consent_file(environ)
    try:
        with path.open("rb") as file:
            status, raw = os.fstat(file.fileno()), file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _file_error(path, f"it cannot be read ({error.strerror or error})") from None
    if hasattr(os, "geteuid") and (
        status.st_uid not in {os.geteuid(), 0} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise _file_error(path, "other users may write to it")
    try:
        return _read(json.loads(raw.decode()) if len(raw) <= MAX_BYTES else None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _file_error(path, "it is damaged") from None


def _file_error(path: Path, why: str) -> ConfigError:
    hint = "Delete it, and allow again what you need."
    return ConfigError(f"{why}, so nothing is allowed.", place=visible(str(path)), hint=hint)


def _read(document: Any) -> dict[str, frozenset[Permission]]:
    """Return the consents of a document; raise an error for one of another shape."""
    if document["version"] != VERSION:
        raise ValueError(document["version"])
    return {
        folder: frozenset(
            Permission(_kind(one["kind"]), _texts(one["words"]), _texts(one["variables"]))
            for one in entries
        )
        for folder, entries in document["folders"].items()
    }


def _kind(value: Any) -> Kind:
    return next(kind for kind in get_args(Kind) if kind == value)


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise TypeError(values)
    return tuple(values)


def grant(
    folder: str, permissions: Iterable[Permission], environ: Mapping[str, str] = os.environ
) -> None:
    """Allow these things in a folder from now on."""
    by_folder = read_consents(environ)
    _write({**by_folder, folder: by_folder.get(folder, frozenset()).union(permissions)}, environ)


def revoke(folder: str, environ: Mapping[str, str] = os.environ) -> frozenset[Permission]:
    """End all consent for a folder, and return what was allowed."""
    by_folder = read_consents(environ)
    ended = by_folder.pop(folder, frozenset())
    if ended:
        _write(by_folder, environ)
    return ended


def _write(by_folder: Mapping[str, frozenset[Permission]], environ: Mapping[str, str]) -> None:
    """Replace the file of consents, which only the user may read, in one step."""
    path = consent_file(environ)
    folders = {
        folder: [
            {"kind": one.kind, "words": one.words, "variables": one.variables}
            for one in sorted(permissions)
        ]
        for folder, permissions in sorted(by_folder.items())
    }
    text = json.dumps({"version": VERSION, "folders": folders}, indent=1)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # its mode is 600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(handle)
            os.replace(fresh, path)  # noqa: PTH105 - the name is a text
        except BaseException:
            os.unlink(fresh)  # noqa: PTH108
            raise
    except OSError as error:
        why = f"the consent cannot be written ({error.strerror or error})."
        raise ConfigError(why, place=visible(str(path))) from None
