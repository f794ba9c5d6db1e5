"""Files that clients send: kept in a folder of their own while they are read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Request

from peerage.errors import PeerageError
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
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            name: {"schema": {"type": "string", "format": "binary"}} for name in SUFFIX_BY_TYPE
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
async def received(
    service: Service, pieces: AsyncIterator[bytes], suffix: str
) -> AsyncIterator[Path]:
    """Write the pieces of a file to a folder, and delete it afterwards.

    Errors name the upload, not the path on the server.
    """
    folder = Path(tempfile.mkdtemp(prefix="peerage-"))
    path = folder / f"upload{suffix}"
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
    suffix = suffix_of(name, request.headers.get("content-type", ""))
    async with received(service, request.stream(), suffix) as path:
        yield path
