"""Records of files from other tools: the beginning of a file, and its records one by one.

Files are streamed: a JSON document of several gigabytes is never completely in memory, and a member
of an archive is read up to a limit.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from peerage.errors import InputError, shown
from peerage.messages import read_answer
from peerage.paths import refuse_special
from peerage.text import text_key
from peerage.types import written_text

Container = Literal["json", "jsonl", "csv", "parquet", "zip", "text"]
Record = Mapping[str, Any]

HEAD_BYTES = 256 * 1024  # how much of a file is read to recognise its format
MAX_LINE_BYTES = 64 << 20
MAX_MEMBER_BYTES = 256 << 20  # the unpacked size of one file in an archive
MAX_ARCHIVE_BYTES = 8 << 30  # the unpacked size of all files in an archive
MAX_MEMBERS = 200_000
UNREADABLE = (  # errors raised by a damaged, encrypted or unknown member of an archive
    zipfile.BadZipFile,
    RuntimeError,
    OSError,
    EOFError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
)
ZSTD = 93  # a compression method in ZIP archives that `zipfile` does not support yet
LOCAL_HEADER = struct.Struct("<26xHH")  # the lengths of a member's name and extra field
PARQUET_MAGIC, ZIP_MAGIC = b"PAR1", b"PK\x03\x04"
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SEPARATORS = ",;\t|"


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a file: its container, its first record, and the JSON around it."""

    path: Path
    container: Container
    value: Any = None  # JSON: the document, cut off after the first bytes
    record: Record = field(default_factory=dict)  # the first row, line or element
    columns: tuple[str, ...] = ()  # of a table: all columns; of JSON: keys of the first records
    members: tuple[str, ...] = ()  # of an archive: the names of its files


def look_at(path: Path) -> Beginning:
    """Return the beginning of a file; raise an error if it is missing or empty."""
    refuse_special(path)
    try:
        with path.open("rb") as data:
            head = data.read(HEAD_BYTES)
    except OSError as error:
        reason = "the file does not exist" if not path.exists() else (error.strerror or str(error))
        raise InputError(f"cannot be read: {reason}.", place=str(path)) from None
    if not head.strip():
        raise InputError("the file is empty.", place=str(path))
    if head.startswith(ZIP_MAGIC):
        with open_archive(path) as archive:
            return Beginning(path, "zip", members=tuple(archive.namelist()[:MAX_MEMBERS]))
    if head.startswith(PARQUET_MAGIC):
        names = _parquet_columns(path)
        return Beginning(path, "parquet", record=dict.fromkeys(names), columns=names)
    if b"\0" in head or head.startswith(GZIP_MAGIC):
        is_packed = head.startswith((GZIP_MAGIC, ZSTD_MAGIC))
        raise InputError(
            "this file is compressed." if is_packed else "this is not text, Parquet or ZIP.",
            place=str(path),
            hint="Unpack it first." if is_packed else "Save it as JSON, CSV or Parquet in UTF-8.",
        )
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return _look_at_json(path, text)
    return _look_at_text(path, text)


def _parquet_columns(path: Path) -> tuple[str, ...]:
    import duckdb
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
    from pyarrow.lib import ArrowException  # type: ignore[import-untyped]

    from peerage.engines.unfolding import refuse_unfolding

    try:
        names = tuple(pq.read_schema(path).names)
        refuse_unfolding(path)
        return names
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read as Parquet: {reason}", place=str(path)) from None
    except (ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read as Parquet: {reason}", place=str(path)) from None


def _look_at_json(path: Path, head: bytes) -> Beginning:
    value = first_value(head)
    has_lines = _has_lines(path, head, value)
    if has_lines:
        values = [value, *map(_value_of, head.split(b"\n")[1:-1])]
    else:
        values = value if isinstance(value, list) else [value]
    first_records = [one for one in values if isinstance(one, dict)]
    keys = tuple(dict.fromkeys(key for record in first_records for key in record))
    record = (value if isinstance(value, dict) else {}) if has_lines else {}
    record = record or next(iter(first_records), {})
    return Beginning(path, "jsonl" if has_lines else "json", value, record, keys)


def _has_lines(path: Path, head: bytes, value: Any) -> bool:
    """Return whether a file has one JSON value per line, rather than one document."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    if not isinstance(value, dict):
        return False
    first, _, rest = head.partition(b"\n")
    return rest.lstrip()[:1] == b"{" and _value_of(first) is not None


def _value_of(line: bytes) -> Any:
    """Return the JSON value of a line, or None if the line is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _look_at_text(path: Path, head: bytes) -> Beginning:
    lines = head.decode("utf-8", "replace").splitlines()
    separator = max(SEPARATORS, key=lines[0].count)
    if separator not in lines[0]:
        return Beginning(path, "text")
    names, *rows = list(csv.reader(lines[:2], delimiter=separator))
    columns = tuple(name.strip() for name in names)
    record = dict(zip(columns, rows[0], strict=False)) if rows else dict.fromkeys(columns, "")
    return Beginning(path, "csv", record=record, columns=columns)


def first_value(head: bytes) -> Any:
    """Return the JSON value at the start of some bytes, possibly incomplete."""
    import ijson  # type: ignore[import-untyped]

    builder = ijson.ObjectBuilder()
    try:
        for event, value in ijson.basic_parse(io.BytesIO(head), use_float=True):
            builder.event(event, value)
    except (ijson.JSONError, UnicodeDecodeError, OverflowError):
        pass  # cut off in the middle, or another value follows on the next line
    return getattr(builder, "value", None)


def identity(path: Path) -> str:
    """Return a short text that identifies a file, as a part of ids made from row numbers."""
    return digest_of(path)[:12]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


# -- records ------------------------------------------------------------------------------------


def records(path: Path, *places: str) -> Iterator[tuple[str, Record]]:
    """Yield the objects of a JSON or JSONL file, each with its place, one at a time.

    A place is a path of keys to a list in the document, such as `results.results`; the empty path
    is the document itself, if it is a list. The first place that has records is read.
    """
    if look_at(path).container == "jsonl":
        yield from _lines(path)
        return
    for place in places or ("",):
        n = 0
        for n, value in enumerate(_elements(path, f"{place}.item" if place else "item"), 1):
            yield f"record {n}", _object(value, path, f"record {n}")
        if n:
            return


def document(path: Path, most_bytes: int = MAX_MEMBER_BYTES) -> Any:
    """Return the JSON document of a file; refuse a file that is too large."""
    if path.stat().st_size > most_bytes:
        raise InputError(
            f"this document has more than {most_bytes >> 20} MB.",
            place=str(path),
            hint="Split it, or convert it to a table of reviews.",
        )
    return parse(path.read_bytes(), str(path))


def parse(data: bytes, place: str) -> Any:
    """Return the JSON value in some bytes; an error names the place."""
    try:
        return json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON: {error}.", place=place) from None


def _elements(path: Path, prefix: str) -> Iterator[Any]:
    import ijson

    with path.open("rb") as data:
        if data.read(3) != b"\xef\xbb\xbf":
            data.seek(0)
        try:
            yield from ijson.items(data, prefix, use_float=True)
        except (ijson.JSONError, UnicodeDecodeError, OverflowError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"the JSON breaks off or is damaged: {reason}.",
                place=str(path),
                hint="Nothing was read. Export the file again.",
            ) from None


def _lines(path: Path) -> Iterator[tuple[str, Record]]:
    with path.open("rb") as data:
        for number, line in enumerate(iter(lambda: data.readline(MAX_LINE_BYTES), b""), 1):
            if line.strip():
                place = f"line {number}"
                yield place, _object(parse(line, f"{path}, {place}"), path, place)


def _object(value: Any, path: Path, place: str) -> Record:
    if not isinstance(value, dict):
        raise InputError(f"expected an object, got {shown(value)}.", place=f"{path}, {place}")
    return value


def rows_or_records(path: Path, *places: str) -> Iterator[tuple[str, Record]]:
    """Yield the rows of a table, or the objects of a JSON or JSONL file, each with its place."""
    is_table = look_at(path).container in ("csv", "parquet")
    return table_rows(path) if is_table else records(path, *places)


def table_rows(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield the rows of a CSV or Parquet file, each with its place."""
    beginning = look_at(path)
    if beginning.container == "parquet":
        import pyarrow.parquet as pq

        number = 0
        for batch in pq.ParquetFile(path).iter_batches(10_000):
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", row
        return
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        separator = max(SEPARATORS, key=text.readline().count)
        text.seek(0)
        csv.field_size_limit(MAX_LINE_BYTES)
        for number, row in enumerate(csv.DictReader(text, delimiter=separator), 1):
            yield (
                f"row {number}",
                {key.strip(): cell for key, cell in row.items() if key is not None},
            )


# -- archives -----------------------------------------------------------------------------------


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a ZIP archive; raise an error if it is damaged or has too many members."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(
            f"this archive is damaged or cut off: {error}.",
            place=str(path),
            hint="Copy or export it again.",
        ) from None
    if len(archive.infolist()) > MAX_MEMBERS:
        raise InputError(f"this archive has more than {MAX_MEMBERS:,} files.", place=str(path))
    return archive


def read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return one file of an archive, unpacked in memory and not to disk.

    The limit applies to the bytes actually unpacked, not to the size that the archive states.
    """
    place = f"{path}, {name}"
    info = archive.getinfo(name)
    try:
        data = (
            _read_zstd(path, info)
            if info.compress_type == ZSTD
            else archive.open(info).read(MAX_MEMBER_BYTES + 1)
        )
    except UNREADABLE as error:
        raise InputError(
            f"this file of the archive cannot be read: {error}.", place=place
        ) from None
    if len(data) > MAX_MEMBER_BYTES:
        raise InputError(
            f"this file unpacks to more than {MAX_MEMBER_BYTES >> 20} MB.", place=place
        )
    return data


def _read_zstd(path: Path, info: zipfile.ZipInfo) -> bytes:
    import pyarrow as pa

    with path.open("rb") as data:
        data.seek(info.header_offset)
        data.seek(sum(LOCAL_HEADER.unpack(data.read(LOCAL_HEADER.size))), io.SEEK_CUR)
        packed = data.read(info.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as unpacked:
        return bytes(unpacked.read(MAX_MEMBER_BYTES + 1))


# -- values -------------------------------------------------------------------------------------


def at_path(value: Any, path: str) -> Any:
    """Return the value at a dotted path of keys, or None if there is none."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def has_path(value: Any, path: str) -> bool:
    """Return whether a key or a dotted path of keys exists; its value may be null."""
    if isinstance(value, Mapping) and path in value:
        return True
    place, _, key = path.rpartition(".")
    return bool(place) and key in object_at(value, place)


def object_at(value: Any, path: str) -> Record:
    """Return the object at a dotted path of keys, or an empty object if there is none."""
    part = at_path(value, path)
    return part if isinstance(part, Mapping) else {}


def first_of(record: Record, names: Iterable[str]) -> Any:
    """Return the first existing value among several names."""
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def count_words(text: object) -> int | None:
    """Return the number of words in a text, or None if it is not a text."""
    return len(text.split()) if isinstance(text, str) else None


def hash_text(text: object) -> int | None:
    """Return the key by which equal answers are recognised, or None if it is not a text."""
    return text_key(text) if isinstance(text, str) else None


def model_text(value: object) -> str | None:
    """Return the text of an answer; from messages with tool calls, the texts of the assistant."""
    if isinstance(value, list):
        try:
            answer = read_answer(value, "messages")
        except InputError:  # the scores are still used if a message is unusual
            return None
        return answer if isinstance(answer, str) else written_text(answer)
    return value if isinstance(value, str) else None


def as_score(value: object) -> float | None:
    """Return a finite number or a boolean as a number, and None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        number = float(value)
        return number if number - number == 0 else None
    return None
