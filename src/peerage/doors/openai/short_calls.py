"""Short calls that chat clients make on their own: titles, tags, follow-ups, search queries.

They are recognised by the clients' built-in prompts. One seat answers them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from peerage.doors.openai.deliberation import Outcome, SpokenVerdict, Step, VerdictWords
from peerage.quick import QuickReply, quick_reply
from peerage.service import Service
from peerage.session_requests import SessionRequest
from peerage.tasks import end

_CHAT = ("<chat_history>", "</chat_history>")
# How each prompt begins, and texts that it also contains. The patterns match the wording of the
# client's prompt, not only its subject, because a person may ask for a title too.
SHAPES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    # Open WebUI; other clients have copied its prompts.
    "title": (r"### Task:.{0,300}\btitle\b", _CHAT),
    "tags": (r"### Task:.{0,300}\btags\b", _CHAT),
    "follow-ups": (r"### Task:.{0,300}\bfollow-?ups?\b", _CHAT),
    "search queries": (r"### Task:.{0,300}\bsearch quer", _CHAT),
    "image prompt": (r"### Task:.{0,300}\bimage generation\b", _CHAT),
    "autocompletion": (r"### Task:\s*You are an autocompletion system\b", ("<type>", "<text>")),
    "emoji": (r"Your task is to reflect the speaker's likely facial expression through a", ()),
    "title of a query": (
        r"(?:Here is the query:|Create a concise, 3-5 word phrase\b)",
        ("Create a concise, 3-5 word phrase", "as a title for the", "query"),
    ),
    # LibreChat
    "title of a conversation": (
        r"(?:Provide|Please generate) a concise, 5-word-or-less title for the conversation,",
        (),
    ),
    "title and language": (
        r"Analyze this conversation and provide:\s*1\. The detected language of the conversation",
        ("A concise title in the detected language",),
    ),
    "title of a beginning": (
        r"Please generate a concise title \(max 40 characters\) for a conversation that starts",
        (),
    ),
    # NextChat, Chatbox, Jan
    "title of our conversation": (
        r"Please generate a four to five word title summarizing our conversation without any",
        (),
    ),
    "name of a conversation": (
        r"Based on the chat history, give this conversation a name\.",
        (),
    ),
    "title of a message": (r"Summarize in a (?:5|10)-word Title\. Give the title only\.", ()),
}
BEGINNINGS = {
    name: re.compile(begins, re.DOTALL | re.IGNORECASE) for name, (begins, _) in SHAPES.items()
}


def short_call_of(turns: Sequence[tuple[str, str]]) -> str:
    """Return the kind of short call at the end of a conversation, or an empty string."""
    role, text = turns[-1] if turns else ("", "")
    if role != "user":
        return ""
    text = text.strip()
    for name, begins in BEGINNINGS.items():
        if begins.match(text) and all(part in text for part in SHAPES[name][1]):
            return name
    return ""


async def quick_steps(
    service: Service, request: SessionRequest, max_tokens: int | None, extras: dict[str, Any]
) -> AsyncGenerator[Step, None]:
    """Yield the words of the one seat that answers, then the outcome."""
    words: asyncio.Queue[str | None] = asyncio.Queue()
    spoken = SpokenVerdict()
    spoken.is_written = request.output is None
    task = asyncio.create_task(quick_reply(service, request, max_tokens, words.put_nowait))
    task.add_done_callback(lambda _: words.put_nowait(None))
    try:
        while (word := await words.get()) is not None:
            if piece := spoken.heard("", word):
                yield VerdictWords(piece)
        outcome = _outcome(await task, request, extras)
    finally:
        await end([task])
    rest = spoken.rest(outcome.text)
    if rest and outcome.refusal is None:
        yield VerdictWords(rest, outcome.function)
    yield outcome


def _outcome(reply: QuickReply, request: SessionRequest, extras: dict[str, Any]) -> Outcome:
    usage, output = reply.usage, request.output
    refusal = f"No reply followed the schema: {reply.fault}." if reply.fault else None
    return Outcome(
        text=reply.text,
        function=output.function if output is not None else "",
        refusal=refusal,
        tokens=(usage.tokens_in or 0, usage.tokens_out or 0),
        cost_usd=usage.cost_usd,
        is_cut_off=reply.is_cut_off,
        extras={"session": None, "quick": True, "seat": reply.seat, **extras},
    )
