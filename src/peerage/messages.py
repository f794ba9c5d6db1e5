"""Read and render the messages of answers and the images of questions, in vendors' formats.

An answer may be a list of messages: the assistant's texts, its tool calls, and their results, in
OpenAI's chat format or with Anthropic's blocks. Messages before the assistant's first one belong to
the question and are left out, and so are names of models and authors. `render_messages` returns
the text of the answer, with every message in full.

An image is a link, or a data URL whose bytes have the type that it claims. A link is passed on and
never opened here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from peerage.errors import InputError, how_many, shown
from peerage.paths import refuse_special
from peerage.shapes import is_deeper
from peerage.text import entered_text, is_unicode, valid_text
from peerage.types import Answer, Image, Message, Query, Seat, ToolCall, Turn

MAX_MESSAGES = 2_000  # and tool calls of one answer
MAX_ANSWER_CHARACTERS = 1_000_000  # of all messages of one answer
MAX_TOOL_NAME = 200
MAX_LISTED = 40  # steps that a folded answer lists
MAX_DEPTH = 50  # of JSON arguments
MAX_IMAGES = 10  # of a question, including its conversation
MAX_IMAGE_BYTES = 4_000_000  # of one image
MAX_IMAGES_BYTES = 8_000_000  # of all images of a question
MAX_LINK = 2_000  # characters of a link to an image
Role: TypeAlias = Literal["assistant", "tool", "user", "system"]
ROLE_BY_NAME: Mapping[str, Role] = {
    "assistant": "assistant",
    "tool": "tool",
    "user": "user",
    "system": "system",
    "developer": "system",
    "function": "tool",
}
DETAILS = ("", "auto", "low", "high", "original")
TEXT_PARTS = ("text", "input_text", "output_text")
IMAGE_PARTS = ("image_url", "input_image", "image")
THOUGHT_PARTS = ("thinking", "redacted_thinking", "reasoning")  # left out of an answer
NOT_KEPT = "[an image that is not kept]"  # replaces an image in an answer
IMAGE_STARTS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
AN_IMAGE = "Give a data URL, as in data:image/png;base64,…, or an http or https link."


# -- answers ---------------------------------------------------------------------------------------


def read_answer(value: Any, place: str) -> Answer:
    """Return an answer to be judged: a text, or messages; refuse an empty or unreadable one.

    A single message without tool calls is returned as its text.
    """
    if isinstance(value, str):
        answer: Answer = entered_text(value)
    elif isinstance(value, list | tuple):
        messages = _read_messages(value, place)
        is_plain = len(messages) == 1 and not messages[0].tool_calls
        answer = messages[0].content if is_plain else messages
    else:
        raise InputError("an answer is a text or a list of messages.", place=place)
    if not answer or (isinstance(answer, str) and not answer.strip()):
        raise InputError("the answer has no text.", place=place)
    return answer


def _read_messages(values: Sequence[Any], place: str) -> tuple[Message, ...]:
    """Return the messages from the assistant's first one on; refuse a result without a call."""
    messages: list[Message] = []
    open_calls: list[ToolCall] = []  # without a result
    names: set[str] = set()  # ids of all calls so far
    for number, value in enumerate(values, 1):
        here = f"{place}, message {number}"
        for message in [value] if isinstance(value, Message) else _read_message(value, here):
            if not messages and message.role in ("user", "system"):
                continue
            if message.role == "tool":
                message = _match_call(message, open_calls, names, here)
            open_calls += message.tool_calls
            names |= {call.id for call in message.tool_calls}
            messages.append(message)
    n = len(messages) + sum(len(one.tool_calls) for one in messages)
    if n > MAX_MESSAGES:
        raise InputError(
            f"the answer has {n:,} messages and calls, over {MAX_MESSAGES:,}.", place=place
        )
    n = sum(len(one.content) + sum(map(_n_characters, one.tool_calls)) for one in messages)
    if n > MAX_ANSWER_CHARACTERS:
        raise InputError(
            f"the messages have {n:,} characters, over {MAX_ANSWER_CHARACTERS:,}.",
            place=place,
            hint="Cut long results of tools.",
        )
    if messages and not any(one.role == "assistant" for one in messages):
        raise InputError("no message is by the assistant.", place=place)
    return tuple(messages)


def _n_characters(call: ToolCall) -> int:
    return len(call.name) + len(call.arguments)


def _match_call(
    message: Message, open_calls: list[ToolCall], names: set[str], place: str
) -> Message:
    """Return a result with its call's id; without one, it belongs to the first unanswered call."""
    id_ = message.tool_call_id
    call = next((one for one in open_calls if not id_ or one.id == id_), None)
    if call is None and (not id_ or id_ not in names):
        of = f"the call {shown(id_)}" if id_ else "a call"
        raise InputError(f"this is the result of {of} that no earlier message makes.", place=place)
    if call is not None:
        open_calls.remove(call)
        return replace(message, tool_call_id=call.id)
    return message


def _read_message(value: Any, place: str) -> Iterator[Message]:
    """Yield the tool results that a message holds as Anthropic's blocks, then the message."""
    if not isinstance(value, Mapping):
        raise InputError("a message is an object with a role and a content.", place=place)
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLE_BY_NAME:
        known = ", ".join(dict.fromkeys(ROLE_BY_NAME.values()))
        raise InputError(f"there is no role {shown(role)}.", place=place, hint=f"Known: {known}.")
    parts = _parts_of(value.get("content"), place)
    calls = [_read_call(one, place) for one in _list_of(value.get("tool_calls"), place)]
    if value.get("function_call") is not None:  # the older format of a call
        calls.append(_read_call(value["function_call"], place))
    texts: list[str] = []
    for part in parts:
        kind = part.get("type")
        if kind == "tool_use":
            calls.append(_read_call(part, place))
        elif kind == "tool_result":
            content = _text_of(_parts_of(part.get("content"), place), place)
            yield Message("tool", content, tool_call_id=_text(part.get("tool_use_id"), place))
        else:
            texts.append(_text_of([part], place))
    content = "\n".join(filter(None, texts))
    if calls and role != "assistant":
        raise InputError("only the assistant's messages may call tools.", place=place)
    if ROLE_BY_NAME[role] == "tool":
        yield Message("tool", content, tool_call_id=_text(value.get("tool_call_id"), place))
    elif content.strip() or calls:
        yield Message(ROLE_BY_NAME[role], content, tuple(calls))


def _read_call(value: Any, place: str) -> ToolCall:
    """Return a tool call in OpenAI's or Anthropic's format; its arguments become text."""
    if isinstance(value, ToolCall):
        return value
    if not isinstance(value, Mapping):
        raise InputError("a tool call must be an object with a function.", place=place)
    inner = value.get("function", value)
    if isinstance(inner, str):  # as in logs of Inspect
        inner = {"name": inner, "arguments": value.get("arguments")}
    if not isinstance(inner, Mapping):
        raise InputError("a tool call must be an object with a function.", place=place)
    name = _text(inner.get("name"), place)
    if not name.strip() or len(name) > MAX_TOOL_NAME:
        raise InputError(f"the name of a tool has 1 to {MAX_TOOL_NAME} characters.", place=place)
    arguments = inner.get("arguments", inner.get("input"))
    if arguments is not None and not isinstance(arguments, str):
        if is_deeper(arguments, MAX_DEPTH):
            raise InputError(f"arguments are nested more than {MAX_DEPTH} deep.", place=place)
        try:
            arguments = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError):
            raise InputError("the arguments of a call are not JSON.", place=place) from None
    return ToolCall(valid_text(name), entered_text(arguments or ""), _text(value.get("id"), place))


def _parts_of(content: Any, place: str) -> list[Mapping[str, Any]]:
    """Return the parts of a message's content; a text is one part."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {"type": "text", "text": part} if isinstance(part, str) else part
        for part in _list_of(content, place)
        if isinstance(part, str) or _is_object(part, place)
    ]


def _is_object(value: Any, place: str) -> bool:
    if not isinstance(value, Mapping):
        raise InputError("a part of a message is not an object.", place=place)
    return True


def _text_of(parts: Sequence[Mapping[str, Any]], place: str) -> str:
    """Return the joined texts of parts, with placeholders for images and without reasoning."""
    texts = []
    for part in parts:
        kind = part.get("type")
        if kind in THOUGHT_PARTS:
            continue
        if kind in IMAGE_PARTS:
            texts.append(NOT_KEPT)
        elif kind in (*TEXT_PARTS, "refusal"):
            texts.append(_text(part.get("refusal" if kind == "refusal" else "text"), place))
        else:
            raise InputError(
                f"a part of type {shown(kind)} cannot be read.",
                place=place,
                hint="Known: text, image_url, tool_use, tool_result.",
            )
    return "\n".join(texts)


def _list_of(value: Any, place: str) -> Sequence[Any]:
    if value is not None and not isinstance(value, list | tuple):
        raise InputError("this is not a text or a list.", place=place)
    return value or ()


def _text(value: Any, place: str) -> str:
    if value is not None and not isinstance(value, str | int):
        raise InputError(f"{shown(value)} is not a text.", place=place)
    return "" if value is None else entered_text(str(value))


# -- steps -----------------------------------------------------------------------------------------


def steps_of(messages: Sequence[Message]) -> Iterator[tuple[str, str, str]]:
    """Yield the steps of an answer: the kind, the tool's name, and the text in full.

    Kinds are the roles, "call" and "result". A call and a result name their tool.
    """
    name_by_id: dict[str, str] = {}
    for message in messages:
        if message.role == "tool":
            yield "result", name_by_id.get(message.tool_call_id, ""), message.content
            continue
        if message.content.strip():
            yield message.role, "", message.content
        for call in message.tool_calls:
            name_by_id[call.id] = call.name
            yield "call", call.name, call.arguments


def step_title(kind: str, tool: str) -> str:
    """Return the title of a step, such as "call of search"."""
    return f"{kind} of {tool}" if tool else kind


def step_length(kind: str, text: str) -> str:
    """Return the length of a step in words, or of a tool call in characters."""
    return (
        how_many(len(text), "character") if kind == "call" else how_many(len(text.split()), "word")
    )


def fold_messages(messages: Sequence[Message], n_characters: int) -> str:
    """Return an answer as Markdown: a line for each step with its length, then the final text.

    A line quotes up to `n_characters` of a text or a tool call, and nothing of a result. If there
    are very many steps, one line gives the number of those in the middle.
    """
    steps = list(steps_of(messages))
    final = steps.pop()[2] if steps and steps[-1][0] == "assistant" else ""
    lines = []
    for number, (kind, tool, text) in enumerate(steps, 1):
        start = " ".join(text[: 4 * n_characters].replace("`", "'").split())
        start = start if len(start) <= n_characters else f"{start[: n_characters - 1]}…"
        title = f"{step_title(kind, tool).replace('`', chr(39))}, {step_length(kind, text)}"
        lines.append(f"{number}. {title}" + (f": `{start}`" if start and kind != "result" else ""))
    left = len(lines) - MAX_LISTED
    if left > 0:
        half = MAX_LISTED // 2
        lines[half : half + left] = ["", f"… {how_many(left, 'more step')}", ""]
    return "\n\n".join(filter(None, ("\n".join(lines), final)))


def render_messages(messages: Sequence[Message]) -> str:
    """Return the text of an answer with messages: every step in full, under its title."""
    return "\n\n".join(
        f"[{step_title(kind, tool)}]\n{text}" for kind, tool, text in steps_of(messages)
    )


def answer_text(answer: Answer) -> str:
    """Return the text of an answer that is given as text or as messages."""
    return answer if isinstance(answer, str) else render_messages(answer)


def answer_document(answer: Answer) -> str | list[dict[str, Any]]:
    """Return an answer as JSON: a text, or messages in OpenAI's format."""
    return answer if isinstance(answer, str) else message_documents(answer)


def message_documents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in OpenAI's chat format."""
    return [_message_document(one) for one in messages]


def _message_document(message: Message) -> dict[str, Any]:
    document: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        document["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        document["tool_call_id"] = message.tool_call_id
    return document


# -- images ----------------------------------------------------------------------------------------


def read_image(value: Any, place: str) -> Image:
    """Return an image from a path, a URL, an object with a `url`, or a part of a message.

    A string is never read as a path, so that no request can make a server open a file.
    """
    if isinstance(value, Path):
        return _load_image(value)
    if isinstance(value, Image):
        value = {"url": value.url, "detail": value.detail}
    detail: Any = ""
    for _ in range(3):  # a part has an object or a text under image_url
        if not isinstance(value, Mapping):
            break
        detail = value.get("detail") or detail
        value = value.get("image_url", value.get("url"))
    if not isinstance(value, str) or not value.strip():
        raise InputError("an image needs a url.", place=place, hint=AN_IMAGE)
    if detail not in DETAILS:
        raise InputError(
            f"unknown image detail {shown(detail)}.",
            place=place,
            hint=f"Known: {', '.join(filter(None, DETAILS))}.",
        )
    url = value.strip()
    if url[:5].lower() == "data:":
        _check_data_url(url, place)
    else:
        _check_link(url, place)
    return Image(url, detail)


def _load_image(path: Path) -> Image:
    """Return the image in a file, as a data URL."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{(error.strerror or 'unreadable').lower()}.", place=str(path)) from None
    return image_of_bytes(data, str(path))


def image_of_bytes(data: bytes, place: str) -> Image:
    """Return the image in these bytes, as a data URL; the first bytes determine its type."""
    kinds = (kind for kind, start in IMAGE_STARTS.items() if start.match(data))
    kind = next(kinds, None)
    if kind is None:
        known = ", ".join(IMAGE_STARTS)
        raise InputError("this file is not an image.", place=place, hint=f"Known: {known}.")
    return read_image(f"data:{kind};base64,{base64.b64encode(data).decode()}", place)


def read_images(values: Sequence[Any]) -> tuple[Image, ...]:
    """Return the images of a question; refuse too many, too large or unreadable ones."""
    if len(values) > MAX_IMAGES:
        raise InputError(f"{len(values)} images: at most {MAX_IMAGES} are allowed.", place="images")
    images = tuple(read_image(one, f"images[{i}]") for i, one in enumerate(values))
    check_images(Query("", images=images))
    return images


def _check_link(url: str, place: str) -> None:
    try:
        parts = urlsplit(url)
        is_link = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_link = False
    if not is_link or not is_unicode(url) or any(one.isspace() for one in url):
        raise InputError(
            "the url of an image is not a data URL or a link.", place=place, hint=AN_IMAGE
        )
    if len(url) > MAX_LINK:
        raise InputError(f"a link has at most {MAX_LINK:,} characters.", place=place)


def _check_data_url(url: str, place: str) -> None:
    """Refuse a data URL that is not base64, is too large, or is not of the type it claims."""
    head, comma, _ = url[:200].partition(",")
    kind, *parameters = head.removeprefix("data:").lower().split(";")
    if not comma or "base64" not in parameters:
        raise InputError("the data URL of an image is not in base64.", place=place, hint=AN_IMAGE)
    if kind not in IMAGE_STARTS:
        raise InputError(
            f"an image of type {shown(kind)} cannot be sent.",
            place=place,
            hint=f"Known: {', '.join(IMAGE_STARTS)}.",
        )
    n = _n_bytes(url)
    if n > MAX_IMAGE_BYTES:
        raise InputError(
            f"the image has {n / 1e6:.1f} MB, over {MAX_IMAGE_BYTES / 1e6:g} MB.",
            place=place,
            hint="Send a smaller one.",
        )
    try:
        data = base64.b64decode(url[len(head) + 1 :].encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise InputError("the data URL of an image is not valid base64.", place=place) from None
    if not IMAGE_STARTS[kind].match(data):
        raise InputError(f"the bytes of the image are not {kind}.", place=place)


def _n_bytes(url: str) -> int:
    """Return the size of the image in a data URL; 0 for a link."""
    if url[:5].lower() != "data:":
        return 0
    return (len(url) - url.find(",") - 1) * 3 // 4 - url[-2:].count("=")


def check_images(query: Query) -> None:
    """Refuse a question with too many images, or too large ones."""
    images = query.all_images
    if len(images) > MAX_IMAGES:
        raise InputError(f"the question has {len(images)} images, over {MAX_IMAGES}.")
    n = sum(_n_bytes(image.url) for image in images)
    if n > MAX_IMAGES_BYTES:
        raise InputError(
            f"the images have {n / 1e6:.1f} MB, over {MAX_IMAGES_BYTES / 1e6:g} MB.",
            hint="Send fewer or smaller ones.",
        )


def image_type(image: Image) -> str:
    """Return the media type of a data URL; "" for a link."""
    return image.url[5 : image.url.find(";")].lower() if _n_bytes(image.url) else ""


def describe_image(image: Image) -> str:
    """Return an image in words: its type and size, or that it is a link, without its address."""
    if kind := image_type(image):
        return f"{kind}, {max(1, round(_n_bytes(image.url) / 1000)):,} kB"
    return "a link"


def image_bytes(image: Image) -> bytes:
    """Return the bytes of an image that is a data URL; empty for a link."""
    return base64.b64decode(image.url.partition(",")[2]) if image_type(image) else b""


def image_document(image: Image) -> dict[str, Any]:
    """Return an image as JSON: its link, or the type, size and hash of its data."""
    kind = image_type(image)
    if not kind:
        return {"url": image.url}
    digest = hashlib.sha256(image_bytes(image)).hexdigest()
    return {"media_type": kind, "bytes": _n_bytes(image.url), "sha256": digest}


def image_block(image: Image) -> dict[str, Any]:
    """Return an image as a part of a message in OpenAI's format."""
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def turn_document(turn: Turn) -> dict[str, Any]:
    """Return a chat message in OpenAI's format; its content is a list of parts if it has images."""
    if not turn.images:
        return {"role": turn.role, "content": turn.content}
    text = [{"type": "text", "text": turn.content}] if turn.content else []
    return {"role": turn.role, "content": [*text, *map(image_block, turn.images)]}


def query_for(seat: Seat, query: Query) -> Query:
    """Return the question for a seat; if the seat takes no images, a note replaces them."""
    if seat.images or not query.all_images:
        return query
    earlier = tuple(
        replace(turn, content=_with_note(turn.content, turn.images), images=())
        for turn in query.earlier
    )
    return replace(query, text=_with_note(query.text, query.images), earlier=earlier, images=())


def _with_note(text: str, images: Sequence[Image]) -> str:
    if not images:
        return text
    came = "An image" if len(images) == 1 else how_many(len(images), "image")
    listed = "; ".join(map(describe_image, images))
    is_not = "is not shown" if len(images) == 1 else "are not shown"
    note = f"[{came} came with this message ({listed}) and {is_not} to you.]"
    return "\n\n".join(filter(None, (text, note)))
