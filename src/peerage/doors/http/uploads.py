"""Files that clients send: kept in a folder of their own while they are read."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile

from peerage.errors import InputError, NotFoundError, PeerageError
from peerage.service import Service

SUFFIX_BY_TYPE = {
    "text/csv": ".csv",
    "application/json": ".json",
    "application/x-ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
}
SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv")
DEFAULT_SUFFIX = ".jsonl"
MAX_PENDING = 5
FILE_FIELD = "file"  # the field of a form that contains the upload
PIECE_BYTES = 1_000_000
UNSAFE = re.compile(r"[^\w.\- ]+")  # characters that are replaced in the name of an upload
MAX_STEM_CHARACTERS = 100
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            name: {"schema": {"type": "string", "format": "binary"}} for name in SUFFIX_BY_TYPE
        }
        | {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FILE_FIELD],
                    "properties": {FILE_FIELD: {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}


def suffix_of(name: str, content_type: str = "") -> str:
    """Return the suffix of a file: that of its name, else that of its content type."""
    suffix = Path(name).suffix.lower()
    if suffix in SUFFIXES:
        return suffix
    media_type = content_type.partition(";")[0].strip().lower()
    return SUFFIX_BY_TYPE.get(media_type, DEFAULT_SUFFIX)


@asynccontextmanager
async def receive_file(
    service: Service, pieces: AsyncIterator[bytes], suffix: str, name: str = ""
) -> AsyncIterator[Path]:
    """Write the pieces of a file to a temporary folder, which is deleted afterwards.

    The file keeps the sender's name without its ending, which some formats need. Error messages say
    "the upload" instead of the path on the server.
    """
    folder = Path(tempfile.mkdtemp(prefix="peerage-"))
    stem = UNSAFE.sub("_", Path(name).stem)[:MAX_STEM_CHARACTERS].strip(".")
    path = folder / f"{stem or 'upload'}{suffix}"
    try:
        with path.open("wb") as out:
            async for piece in pieces:
                out.write(piece)
        yield path
    except PeerageError as error:
        error.place = error.place.replace(str(path), "the upload")
        error.message = error.message.replace(str(path), "the upload")
        raise
    finally:
        await service.read(shutil.rmtree, folder, True)


@asynccontextmanager
async def received_body(service: Service, request: Request, name: str = "") -> AsyncIterator[Path]:
    """Write the body of a request to a file; the name or the content type gives the format."""
    content_type = request.headers.get("content-type", "")
    if not content_type.lower().startswith("multipart/form-data"):
        suffix = suffix_of(name, content_type)
        async with receive_file(service, request.stream(), suffix, name) as path:
            yield path
        return
    async with request.form(max_files=1, max_fields=10) as form:
        upload = form.get(FILE_FIELD)
        if not isinstance(upload, UploadFile):
            raise InputError("the form has no file.", hint=f"Send it in the field {FILE_FIELD}.")
        name = name or upload.filename or ""
        suffix = suffix_of(name, upload.content_type or "")
        async with receive_file(service, _read_pieces(upload), suffix, name) as path:
            yield path


async def _read_pieces(upload: UploadFile) -> AsyncIterator[bytes]:
    """Yield the content of an uploaded file in pieces."""
    while piece := await upload.read(PIECE_BYTES):
        yield piece


class PendingFiles:
    """Files that were previewed but not yet imported; only the latest few are kept."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._names: dict[str, str] = {}  # by id, the sender's name of the file

    def keep(self, path: Path, name: str) -> str:
        """Copy a file, and return the id under which it is found again."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="peerage-"))
        id_ = secrets.token_hex(8)
        shutil.copyfile(path, self._folder / f"{id_}{path.suffix}")
        self._names[id_] = name
        while len(self._names) > MAX_PENDING:
            self.drop(next(iter(self._names)))
        return id_

    def find(self, id_: str) -> tuple[Path, str]:
        """Return a kept file and its name."""
        if id_ not in self._names or self._folder is None:
            raise NotFoundError("this file is no longer kept.", hint="Upload it again.")
        return next(self._folder.glob(f"{id_}.*")), self._names[id_]

    def drop(self, id_: str) -> None:
        """Delete a kept file."""
        if self._names.pop(id_, None) is not None and self._folder is not None:
            for path in self._folder.glob(f"{id_}.*"):
                path.unlink()

    def close(self) -> None:
        """Delete all kept files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
