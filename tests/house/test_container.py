"""The image and the compose file, as far as they can be checked without an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from fastapi.routing import APIRoute
from packaging.utils import canonicalize_name

from peerage import config
from peerage.doors.http import operations
from tests.conftest import IMAGE
from tests.forked import Forks
from tests.image_root import digests, read_steps
from tests.shared.waiting import wait_until

ROOT = Path(__file__).parents[2]


def steps(name: str) -> list[str]:
    """The texts of all instructions of this name."""
    return [step.text for step in read_steps() if step.name == name]


def test_the_image_runs_a_command_that_exists_as_a_user_without_rights() -> None:
    """A user with a number, as Kubernetes checks the number."""
    names = [step.name for step in read_steps()]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", steps("USER")[-1])
    assert names.index("USER") > len(names) - 1 - names[::-1].index("FROM")
    assert json.loads(steps("CMD")[0])[0] == "serve"
    copied = [text.split()[:-1] for text in steps("COPY") if "--from=" not in text]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert f"!{name}" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_the_image_has_the_python_that_its_versions_were_tested_on() -> None:
    lock = (ROOT / "locks" / "base.txt").read_text(encoding="utf-8")
    (tested_on,) = re.findall(r"^# Python ([\d.]+)$", lock, re.MULTILINE)
    (image,) = {text.split()[0].partition("@")[0] for text in steps("FROM")}
    assert image.startswith(f"python:{tested_on}-slim")


def test_images_and_actions_of_others_are_named_by_their_digest() -> None:
    """A tag can be moved to other code; a digest cannot."""
    document = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    images = [text.split()[0] for text in steps("FROM")]
    images += [one["image"] for one in document["services"].values() if "image" in one]
    assert len(images) == 3
    own = (ROOT / ".github" / "workflows").glob("*.yml")
    files = [ROOT / "action.yml", *(ROOT / "docs" / "ci").glob("*workflow.yml"), *own]
    for file in files:
        images += re.findall(r"container: (.+)$", file.read_text(), re.M)
    for image in images:
        assert re.fullmatch(r"[\w.-]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image
    uses = [words for file in files for words in re.findall(r"uses: (.+)$", file.read_text(), re.M)]
    others = [words for words in uses if not words.startswith("YOUR-ORGANISATION/")]
    assert len(others) >= 6
    for words in others:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v[\d.]+", words), words


def test_a_change_of_the_code_does_not_change_the_layer_of_the_dependencies(
    tmp_path: Path,
) -> None:
    for name in ("Dockerfile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    (tmp_path / "src").mkdir()
    before = digests(tmp_path)
    (tmp_path / "src" / "new.py").write_text("x = 1")
    changed = [old != new for old, new in zip(before, digests(tmp_path), strict=True)]
    runs = [i for i, step in enumerate(read_steps(tmp_path)) if step.name == "RUN"]
    assert [changed[i] for i in runs] == [False, True, True]
    (tmp_path / "locks" / "base.txt").write_text("")
    assert digests(tmp_path)[runs[0]] != before[runs[0]]


def test_the_health_check_of_the_image_asks_a_route_that_sees_the_store() -> None:
    (text,) = steps("HEALTHCHECK")
    (path,) = re.findall(r"127\.0\.0\.1:8400(/[\w/]*)'", text)
    routes = {
        route.path: route for route in operations.router.routes if isinstance(route, APIRoute)
    }
    assert routes[path].endpoint is operations.store_ready
    (limit_s,) = re.findall(r"timeout=(\d+)\)", text)
    assert float(limit_s) > operations.STORE_ANSWERS_S


def test_all_that_the_image_keeps_is_in_its_volume(tmp_path: Path, forks: Forks) -> None:
    """Its commands run with the image's environment, /data being another folder."""
    (volume,) = steps("VOLUME")
    pairs = [pair for text in steps("ENV") for pair in shlex.split(text)]
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


# -- the image as a folder -------------------------------------------------------------------------

in_image = pytest.mark.needs("image")


def image_environment(data: Path) -> dict[str, str]:
    """The variables of the image, with /data in another folder, and one key of a model."""
    pairs = [pair for text in steps("ENV") for pair in shlex.split(text)]
    (volume,) = steps("VOLUME")
    values = {
        name: value.replace(volume, str(data))
        for name, _, value in (pair.partition("=") for pair in pairs)
    }
    path = values["PATH"].replace("/opt/", f"{IMAGE}/opt/")
    values["PATH"] = path.replace("$PATH", os.environ["PATH"])
    return {**values, "OPENROUTER_API_KEY": "sk-or-none"}


@contextmanager
def started_image(data: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command of the image on a free loopback port, which a name makes others reach."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = json.loads(steps("ENTRYPOINT")[0]) + json.loads(steps("CMD")[0])
    words[0] = str(IMAGE / "opt" / "peerage" / "bin" / words[0])
    words[words.index("0.0.0.0")] = "127.0.0.1"  # noqa: S104 - it is replaced
    words += ["--port", str(port), "--allow-host", "peerage.test"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=data, env=image_environment(data), stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()


def status(url: str, token: str = "") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - on loopback
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_until_up(url: str, process: subprocess.Popen[str]) -> None:
    wait_until(lambda: status(f"{url}/healthz") == 200, process, 300)


@in_image
@pytest.mark.slow
def test_the_image_starts_with_keys_alone_and_prints_its_first_token_once(tmp_path: Path) -> None:
    with started_image(tmp_path) as (url, process):
        wait_until_up(url, process)
        (health,) = steps("HEALTHCHECK")
        check = json.loads(health[health.index("[") :])
        check[-1] = check[-1].replace("http://127.0.0.1:8400", url)
        subprocess.run(check, env=image_environment(tmp_path), check=True)
        process.terminate()
        out, err = process.communicate(timeout=60)
    token = out.strip()
    assert token
    assert "only time it is shown" in err
    assert "panel" in err  # the line that says where it listens names the seats
    with started_image(tmp_path) as (url, process):
        wait_until_up(url, process)
        assert (status(f"{url}/api/sessions"), status(f"{url}/api/sessions", token)) == (401, 200)
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert out == ""
    assert token not in err


@in_image
def test_the_image_has_the_locked_versions_and_telemetry_and_its_own_copy() -> None:
    probe = (
        "import json, importlib.metadata as m, opentelemetry.sdk, peerage;"
        "print(json.dumps([peerage.__file__, {d.name: d.version for d in m.distributions()}]))"
    )
    python = str(IMAGE / "opt" / "peerage" / "bin" / "python")
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True)
    place, versions = json.loads(done.stdout)
    assert Path(place).is_relative_to(IMAGE)
    names = ("base", "server", "mcp", "postgres", "telemetry")
    lock = "".join((ROOT / "locks" / f"{one}.txt").read_text(encoding="utf-8") for one in names)
    pins = {canonicalize_name(n): v for n, v in re.findall(r"^([\w.-]+)==(\S+)", lock, re.M)}
    others = {canonicalize_name(name) for name in versions} - {"pip", "setuptools", "peerage"}
    installed = {canonicalize_name(name): version for name, version in versions.items()}
    assert {name: installed[name] for name in others} == {name: pins[name] for name in others}


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
