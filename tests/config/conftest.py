"""Settings from a text, as if it were the file at hand, and from nothing else unless said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from peerage import config

Load = Callable[..., config.Settings]


@pytest.fixture(scope="module", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty working directory: a peerage.toml of whoever runs the tests is not theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("empty"))
        yield


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    path = tmp_path_factory.mktemp("config") / "peerage.toml"

    def load(
        text: str | bytes = "",
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> config.Settings:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return config.load(path, environ=environ or {}, flags=flags or {})

    return load
