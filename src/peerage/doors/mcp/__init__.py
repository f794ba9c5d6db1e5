"""The council for agents: tools and resources over the Model Context Protocol.

Agents give up on a call after about a minute, so `ask` returns within a given time: the verdict,
or the id of a session that continues and can be read later.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import Tool
from pydantic import ValidationError

from peerage.config.checks import SENTENCES
from peerage.doors.mcp.report_tools import BoardArguments, add_report_tools, add_resources
from peerage.doors.mcp.session_tools import add_session_tools
from peerage.doors.mcp.tool_schemas import PanelFacts, describe_tools
from peerage.doors.running_calls import RunningCalls
from peerage.errors import PeerageError, meant, shown
from peerage.service import Service

INSTRUCTIONS = (
    "Peerage puts a question to several models, which answer it and review each other blind; a "
    "chair writes the verdict. `ask` returns the verdict; if the status is deliberating, call "
    "`session` with the session_id. `verdict` approves or rejects a claim. `cancel` stops a "
    "session. The models see only the text of the arguments: no file, no conversation."
)
# Sentences about wrong arguments of tools, in the words of JSON: "object" instead of "table".
ARGUMENT_SENTENCES = SENTENCES | {
    "string_type": "must be a string, not {value}.",
    "list_type": "must be an array, not {value}.",
    "tuple_type": "must be an array, not {value}.",
    "mapping_type": "must be an object, not {value}.",
    "dict_type": "must be an object, not {value}.",
    "model_type": "must be an object, not {value}.",
    "model_attributes_type": "must be an object, not {value}.",
    "too_long": "must have at most {max_length} entries.",
}
FLAG = re.compile(r"--([a-z][a-z-]*)")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
COMMAND = re.compile(r"\bpeerage [a-z]+\b")


class PlainServer(MCPServer):
    """An MCP server that reports a wrong argument of a tool in one sentence."""

    def __init__(self, service: Service) -> None:
        super().__init__(
            "peerage", version=version("peerage"), instructions=INSTRUCTIONS, log_level="WARNING"
        )
        self._facts = PanelFacts(service)

    async def list_tools(self) -> list[Tool]:
        """Return the tools with plain schemas, the panel's seats and the cost of a question."""
        return describe_tools(await super().list_tools(), await self._facts.read())

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any) -> Any:
        """Call a tool; an error is one sentence that names the wrong argument."""
        tool = self._tool_manager.get_tool(name)
        known = tool.parameters["properties"] if tool else arguments
        if unknown := [one for one in arguments if one not in known]:
            raise ToolError(f"there is no argument {shown(unknown[0])}. {meant(unknown[0], known)}")
        try:
            return await super().call_tool(name, arguments, *context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(_wrong_argument(cause)) from None
            if isinstance(cause, PeerageError):
                raise ToolError(agents_words(cause)) from None
            raise


def agents_words(error: PeerageError) -> str:
    """Return an error's text with arguments instead of flags, and without CLI commands."""
    sentences = [error.message, *SENTENCE.split(error.hint)]
    told = [text for text in sentences if text and not COMMAND.search(text)]
    place = "" if error.place.startswith("--") or not error.place else f"{error.place}: "
    text = " ".join(told or [error.message])
    return FLAG.sub(lambda flag: flag[1].replace("-", "_"), f"{place}{text}")


def _wrong_argument(error: ValidationError) -> str:
    """Return a sentence that names the first wrong argument and says what it should be."""
    first = error.errors(include_url=False)[0]
    kind, (argument, *path) = first["type"], first["loc"]
    name = str(argument)
    if argument == "options" and path:
        name = str(path[0])
    elif path:  # an entry of an array, or a field of one
        name += "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    if kind == "missing":
        return f"{name} is missing."
    if kind == "extra_forbidden":
        known = BoardArguments.model_fields if argument == "options" else ("name", "text")
        return f"there is no option {shown(name)}. {meant(name, known)}"
    sentence = ARGUMENT_SENTENCES.get(kind, "cannot be {value}.")
    return f"{name} {sentence.format(value=shown(first['input']), **first.get('ctx', {}))}"


def create_server(service: Service, calls: RunningCalls | None = None) -> MCPServer:
    """Create the MCP server of a council.

    `calls` are the calls that clients of this service wait for; the caller closes them.
    """
    server = PlainServer(service)
    add_session_tools(server, service, calls or RunningCalls(service))
    add_report_tools(server, service)
    add_resources(server, service)
    return server
