"""The MCP SDK for Python, over HTTP and over a process of its own."""

import asyncio
import os
import sys

from _client_report import QUESTION, report
from mcp import Client, StdioServerParameters

url, command, *arguments = sys.argv[1:]
places = {
    "http": url,
    "stdio": StdioServerParameters(command=command, args=arguments, env=dict(os.environ)),
}


async def run() -> None:
    outcome = {}
    for name, place in places.items():
        async with Client(place) as client:
            tools = await client.list_tools()
            asked = await client.call_tool("ask", {"question": QUESTION, "context": "CPython 3."})
            wrong = await client.call_tool("ask", {"question": ""})
            outcome[name] = {
                "tools": sorted(tool.name for tool in tools.tools),
                "answer": asked.structured_content,
                "error": wrong.content[0].text if wrong.is_error else "",
            }
    report(**outcome)


asyncio.run(run())
