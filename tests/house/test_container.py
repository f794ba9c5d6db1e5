"""The image and the compose file, as far as they can be checked without an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from fastapi.routing import APIRoute

from peerage import config
from peerage.doors.http import operations
from tests.forked import Forks

ROOT = Path(__file__).parents[2]


def steps() -> list[list[str]]:
    """The instructions of the Dockerfile, one list of words each."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    return [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line]


def test_the_image_runs_a_command_that_exists_as_a_user_without_rights() -> None:
    found = steps()
    user = [words[1] for words in found if words[0] == "USER"]
    assert user[-1:] == ["peerage"]
    last_stage = [words[0] for words in found]
    assert last_stage.index("USER") > len(last_stage) - 1 - last_stage[::-1].index("FROM")
    command = json.loads(next(words[1] for words in found if words[0] == "CMD"))
    assert command[0] == "serve"
    copied = [words[1].split()[:-1] for words in found if words[0] == "COPY"]
    for name in (name for names in copied for name in names if not name.startswith(("-", "/"))):
        assert (ROOT / name).exists(), name


def test_the_health_check_of_the_image_asks_a_route_that_sees_the_store() -> None:
    text = next(words[1] for words in steps() if words[0] == "HEALTHCHECK")
    (path,) = re.findall(r"127\.0\.0\.1:8400(/[\w/]*)'", text)
    routes = {
        route.path: route for route in operations.router.routes if isinstance(route, APIRoute)
    }
    assert routes[path].endpoint is operations.store_ready
    (limit_s,) = re.findall(r"timeout=(\d+)\)", text)
    assert float(limit_s) > operations.STORE_ANSWERS_S


def test_the_image_installs_extras_that_there_are() -> None:
    (listed,) = re.findall(r"'\.\[([\w,]+)\]'", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{name} = \[", project, re.M) for name in listed.split(","))


def test_all_that_the_image_keeps_is_in_its_volume(tmp_path: Path, forks: Forks) -> None:
    """Its commands run with the image's environment, /data being another folder."""
    found = steps()
    (volume,) = (words[1] for words in found if words[0] == "VOLUME")
    pairs = [pair for words in found if words[0] == "ENV" for pair in shlex.split(words[1])]
    kept = dict(pair.split("=", 1) for pair in pairs if pair.startswith("PEERAGE_"))
    assert all(volume in value for value in kept.values())
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    elsewhere.mkdir()
    (elsewhere / "r.csv").write_text("session_id,reviewer,candidate,score\ns,x,a,1\ns,x,b,2\n")
    places = {name: value.replace(volume, str(data)) for name, value in kept.items()}
    home = {"HOME": str(elsewhere), "XDG_CACHE_HOME": str(elsewhere / "cache")}
    for command in (
        "token create --scope admin --name you",
        "import r.csv --as reviews",
        "board models",
    ):
        done = forks.run(command.split(), cwd=elsewhere, env={**os.environ, **home, **places})
        assert done.returncode == 0, done.stderr
    assert {path.name for path in data.iterdir()} >= {"peerage.db", "peerage.db.mirror"}
    assert [path.name for path in elsewhere.iterdir()] == ["r.csv"]


def test_the_services_of_compose_fit_together() -> None:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    services = document["services"]
    server = services["peerage"]
    assert set(server["depends_on"]) <= set(services)
    named = {
        volume.partition(":")[0]
        for service in services.values()
        for volume in service["volumes"]
        if not volume.startswith(".")
    }
    assert named == set(document["volumes"])
    assert server["read_only"] is True
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    store = server["environment"]["PEERAGE_STORE"]
    assert "PGPASSWORD" in server["environment"]  # it may hold what a URL cannot
    assert config.load(environ={"PEERAGE_STORE": store}).store.startswith("postgresql://")
    assert shlex.split(services["database"]["healthcheck"]["test"][1])[0] == "pg_isready"
