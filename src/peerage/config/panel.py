"""The panel of somebody who configured nothing: seats for the keys in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# variable, base_url, and up to four (name, model, family); one key of OpenRouter's opens all.
VENDORS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/api/v1",
        (
            ("claude-sonnet", "anthropic/claude-sonnet-4.5", "claude"),
            ("gpt", "openai/gpt-5.1", "gpt"),
            ("gemini", "google/gemini-2.5-pro", "gemini"),
            ("grok", "x-ai/grok-4", "grok"),
        ),
    ),
    (
        "ANTHROPIC_API_KEY",
        "https://api.anthropic.com/v1",
        (
            ("claude-sonnet", "claude-sonnet-4-5", "claude"),
            ("claude-haiku", "claude-haiku-4-5", "claude"),
            ("claude-opus", "claude-opus-4-5", "claude"),
        ),
    ),
    (
        "OPENAI_API_KEY",
        "https://api.openai.com/v1",
        (
            ("gpt", "gpt-5.1", "gpt"),
            ("gpt-mini", "gpt-5-mini", "gpt"),
            ("gpt-nano", "gpt-5-nano", "gpt"),
        ),
    ),
    (
        "GEMINI_API_KEY",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        (
            ("gemini-pro", "gemini-2.5-pro", "gemini"),
            ("gemini-flash", "gemini-2.5-flash", "gemini"),
            ("gemini-flash-lite", "gemini-2.5-flash-lite", "gemini"),
        ),
    ),
)
ENOUGH = 3  # vendors with a key, each giving its first seat, before one gives a second


def default_seats(environ: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Seats as [[seat]] tables for the keys that are set; none where there is no key.

    Different vendors come first, because a panel of one family agrees with itself. A key
    of OpenRouter's reaches them all and stands alone.
    """
    environ = os.environ if environ is None else environ
    keyed = [vendor for vendor in VENDORS if environ.get(vendor[0], "").strip()]
    if keyed and keyed[0][0] == "OPENROUTER_API_KEY":
        return [_table(keyed[0], seat) for seat in keyed[0][2]]
    each = 1 if len(keyed) >= ENOUGH else 2 if len(keyed) == 2 else ENOUGH
    return [_table(vendor, seat) for vendor in keyed for seat in vendor[2][:each]]


def _table(
    vendor: tuple[str, str, tuple[tuple[str, str, str], ...]], seat: tuple[str, str, str]
) -> dict[str, Any]:
    name, model, family = seat
    return {
        "name": name,
        "model": model,
        "family": family,
        "base_url": vendor[1],
        "api_key_env": vendor[0],
    }
