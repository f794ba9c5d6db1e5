"""What a peerage.toml that is only found in the folder may do, and how the user allows more."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from peerage import config
from peerage.config import trust
from peerage.config.settings import SeatTable, Settings
from peerage.config.trust import ConsentError, Permission
from peerage.errors import ConfigError
from peerage.panel import Council

SEAT = """
[[seat]]
name = "a"
"""
COMMAND = SEAT + 'provider = "command"\ncommand = ["claude", "-p"]\n'


def seat(**keys: object) -> str:
    lines = (f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return "\n".join([SEAT, 'model = "m"', *lines])


class Folder:
    """A working folder, and a configuration folder of the user's own."""

    def __init__(self, path: Path) -> None:
        self.file = path / "peerage.toml"
        self.environ = {"XDG_CONFIG_HOME": str(path / "own"), "APPDATA": str(path / "own")}
        self.consents = path / "own" / "peerage" / "trust.json"

    def load(self, text: str, environ: Mapping[str, str] | None = None, **flags: Any) -> Settings:
        self.file.write_text(text, encoding="utf-8")
        return config.load(environ={**self.environ, **(environ or {})}, flags=flags)

    def missing(self, text: str, **flags: Any) -> list[str]:
        try:
            self.load(text, **flags)
        except ConsentError as error:
            return [str(one) for one in error.missing]
        return []

    def allow(self) -> None:
        file, needed = config.permissions(self.environ)
        trust.grant(trust.folder_of(file), needed, self.environ)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


def keys_of(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Every key of the settings; a name that users choose is left out of its path."""
    for name, field in model.model_fields.items():
        tables = [one for one in tables_in(field.annotation) if one is not model]
        if not tables:
            yield f"{above}{name}"
        for table in tables:
            yield from keys_of(table, f"{above}{name}.")


def tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if get_origin(annotation) is None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
    else:
        for part in get_args(annotation):
            yield from tables_in(part)


def test_every_key_of_the_settings_is_decided_on() -> None:
    """A new key goes into `trust.KEYS`, with what finds the things in it that need consent."""
    keys = set(keys_of(Settings))
    assert keys == set(trust.KEYS)
    assert {"seat.command", "rubric.dimension.question", "oidc.roles", "store"} <= keys


FREE = [
    "",
    'store = "sqlite:///other.db"',
    *(
        f'store = "{url}"'
        for url in (
            "postgresql:///peerage",
            "postgresql://me:secret@localhost:5432/peerage?sslmode=disable",
            "postgres://127.0.0.1,[::1]:5433/peerage",
            "postgresql:///peerage?host=/var/run/postgresql",
        )
    ),
    seat(provider="simulated"),
    seat(provider="local"),
    seat(),
    seat(base_url="https://openrouter.ai/api/v1"),
    seat(base_url="https://openrouter.ai/api/v1", api_key_env="OPENROUTER_API_KEY"),
    seat(base_url="https://eu.api.openai.com/v1", api_key_env="OUR_OPENAI_KEY"),
    seat(base_url="http://127.0.0.1:11434/v1", api_key_env="LOCAL_KEY"),
    seat(base_url="http://[::1]:8000/v1"),
    seat(provider="replay", options={}).replace("{}", '{ store = "sqlite:///log.db" }'),
    '[oidc]\nissuer = "http://localhost:9000"\nclient_secret_env = "SOME_SECRET"',
]


@pytest.mark.parametrize("text", FREE)
def test_files_loopback_and_vendors_with_their_own_keys_need_no_consent(
    folder: Folder, text: str
) -> None:
    assert folder.missing(text) == []


KEY = "OPENAI_API_KEY"
ASKED = {
    COMMAND + 'pass_env = ["B_KEY", "A_KEY"]': "run `claude -p` with the value of A_KEY and B_KEY",
    seat(base_url="https://evil.test/v1", api_key_env=KEY): (
        f"call https://evil.test with the value of {KEY}"
    ),
    seat(base_url="http://10.0.0.5:8000/v1"): "call http://10.0.0.5:8000",
    seat(base_url="http://api.openai.com/v1"): "call http://api.openai.com",
    seat(base_url="https://openrouter.ai/api/v1", api_key_env=KEY): (
        f"call https://openrouter.ai with the value of {KEY}"
    ),
    seat(base_url="https://evil.test?@api.openai.com/v1"): "call https://evil.test",
    seat(base_url="https://api.openai.com\\\\.evil.test/v1"): (
        "call https://api.openai.com\\\\.evil.test/v1"
    ),
    seat(base_url="http://127.0.0.1.evil.test/v1"): "call http://127.0.0.1.evil.test",
    seat(base_url="http://inner.localhost/v1"): "call http://inner.localhost",
    seat(provider="decisions", base_url="https://evil.test/v1"): "call https://evil.test",
    seat(provider="stranger", base_url="https://evil.test", api_key_env="A_KEY"): (
        "use the plug-in provider stranger https://evil.test with the value of A_KEY"
    ),
    seat(provider="replay", options={}).replace("{}", '{ store = "postgresql://evil.test/x" }'): (
        "use the store postgresql://evil.test"
    ),
    '[server]\ncors_origins = ["https://app.test"]': (
        "let pages of https://app.test use the server"
    ),
    '[council]\nmoderator = "stranger"': "use the plug-in moderator stranger",
    '[oidc]\nissuer = "https://evil.test"\nclient_secret_env = "A_SECRET"': (
        "let people log in at https://evil.test with the value of A_SECRET"
    ),
} | {
    f'store = "{url}"': f"use the store {shown}"
    for url, shown in {
        "postgresql://evil.test:99/x": "postgresql://evil.test:99",
        "postgresql://localhost,evil.test/x": "postgresql://localhost,evil.test",
        "postgresql://me:hidden@evil.test/x": "postgresql://evil.test",
        # as libpq reads them, each of these reaches another host
        "postgresql:///x?host=evil.test": "postgresql:///x?host=evil.test",
        "postgresql:///x?hostaddr=6.6.6.6": "postgresql:///x?hostaddr=6.6.6.6",
        "postgresql:///x?service=evil": "postgresql:///x?service=evil",
        "postgresql:///x?host=/tmp%2Cevil.test": "postgresql:///x?host=/tmp%2Cevil.test",
        "postgresql://localhost%2Cevil.test/x": "postgresql://localhost%2Cevil.test/x",
        "postgresql://localhost?sslmode=@evil.test/x": (
            "postgresql://localhost?sslmode=@evil.test/x"
        ),
        "stranger://evil.test/x": "stranger://evil.test/x",
    }.items()
}


@pytest.mark.parametrize("text", ASKED)
def test_programs_and_other_hosts_need_consent(folder: Folder, text: str) -> None:
    assert folder.missing(text) == [ASKED[text]]


def test_the_error_says_what_the_file_wants_and_how_to_allow_it(folder: Folder) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^peerage\.toml: this folder's peerage\.toml wants to run `claude -p`, and 1 more "
        r"thing\. To allow it in this folder: peerage trust\.",
    ):
        folder.load('store = "postgresql://evil.test/x"' + COMMAND)


def test_python_asks_for_the_same_consent(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in folder.environ.items():
        monkeypatch.setenv(name, value)
    folder.file.write_text(COMMAND, encoding="utf-8")
    with pytest.raises(ConsentError):
        Council.from_config()


def test_a_file_that_is_named_needs_no_consent(folder: Folder) -> None:
    folder.file.write_text(COMMAND, encoding="utf-8")
    assert config.load("peerage.toml", environ=folder.environ).seat
    for name in ("peerage.toml", "."):  # the file, and its folder
        assert config.load(environ={**folder.environ, "PEERAGE_CONFIG": name}).seat


def test_a_folder_without_a_file_may_be_named_too(tmp_path: Path) -> None:
    assert config.load(environ={"PEERAGE_CONFIG": str(tmp_path)}) == Settings()


def test_flags_and_variables_need_no_consent(folder: Folder) -> None:
    url = "postgresql://db.test/x"
    assert folder.missing('store = "postgresql://evil.test/x"', store=url) == []
    assert folder.load("", {"PEERAGE_STORE": url}).store == url
    table = SeatTable(name="a", model="m", base_url="https://other.test/v1").model_dump()
    assert folder.missing(COMMAND, seat=[table]) == []
    # of two keys that belong together, one from the file is enough
    named = {"PEERAGE_OIDC__ISSUER": "https://login.test"}
    with pytest.raises(ConsentError):
        folder.load('[oidc]\nclient_secret_env = "A_SECRET"', named)


def test_consent_holds_for_this_folder_and_exactly_this_thing(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = seat(base_url="https://models.test/v1", api_key_env="A_KEY", name="b")
    remote = remote.replace('name = "a"\n', "", 1)
    assert len(folder.missing(COMMAND + remote)) == 2
    folder.allow()
    assert folder.missing(COMMAND + remote) == []
    edited = '[council]\nrule = "elo"\n' + COMMAND + remote.replace("/v1", "/v2")
    assert folder.missing(edited) == []
    for change in (("-p", "-q"), ("A_KEY", "B_KEY"), ("models.test", "models.test:99")):
        assert len(folder.missing((COMMAND + remote).replace(*change))) == 1
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    (other / "peerage.toml").write_text(COMMAND, encoding="utf-8")
    with pytest.raises(ConsentError):
        config.load(environ=folder.environ)
    monkeypatch.chdir(tmp_path)
    assert len(trust.revoke(str(tmp_path), folder.environ)) == 2
    assert len(folder.missing(COMMAND + remote)) == 2


def test_consent_is_kept_for_the_real_folder_and_only_for_its_user(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.missing(COMMAND)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    monkeypatch.chdir(link)
    folder.allow()
    monkeypatch.chdir(tmp_path)
    assert folder.missing(COMMAND) == []
    if os.name == "posix":
        assert stat.S_IMODE(folder.consents.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.consents.parent.stat().st_mode) == 0o700
    assert [path.name for path in folder.consents.parent.iterdir()] == ["trust.json"]


BROKEN = ["", "{", "[]", '{"version": 2, "folders": {}}', '{"version": 1, "folders": {"x": [1]}}']


@pytest.mark.parametrize("text", [*BROKEN, '{"version": 1, "folders": ' + "[" * 100_000])
def test_a_damaged_file_of_consents_allows_nothing_and_is_kept(folder: Folder, text: str) -> None:
    folder.missing(COMMAND)
    folder.allow()
    folder.consents.write_text(text, encoding="utf-8")
    with pytest.raises(ConsentError, match=r"trust\.json: it is damaged, so nothing is allowed"):
        folder.load(COMMAND)
    assert folder.load("") is not None  # where nothing needs consent, the file is not read
    with pytest.raises(ConfigError, match="Delete it"):
        folder.allow()
    assert folder.consents.read_text(encoding="utf-8") == text


def test_a_file_of_consents_that_others_may_write_allows_nothing(folder: Folder) -> None:
    folder.missing(COMMAND)
    folder.allow()
    folder.consents.chmod(0o622)
    with pytest.raises(ConsentError, match="other users may write to it"):
        folder.load(COMMAND)


def test_a_relative_configuration_folder_is_ignored(folder: Folder, tmp_path: Path) -> None:
    """Else the folder itself could bring the consent."""
    planted = tmp_path / "planted" / "peerage"
    planted.mkdir(parents=True)
    file = trust.consent_file({"XDG_CONFIG_HOME": "planted", "APPDATA": "planted"})
    assert file.is_absolute()
    assert tmp_path not in file.parents


def test_a_permission_is_shown_without_control_characters() -> None:
    shown = str(Permission("command", ("sh", "\x1b[2Jls\u202e")))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
