"""Doors for people and programs: command line, HTTP, OpenAI, MCP and web pages; all thin."""
