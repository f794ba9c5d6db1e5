"""Which variable holds the key for an address: what a seat says, else the vendor's usual name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from peerage.types import Seat

OPENAI_URL = "https://api.openai.com/v1"  # where a seat without a base_url goes

# The names under which people keep their keys, by the host that the key is for. It is sent
# there and nowhere else: to the host itself or a name under it, and only by https.
KEY_NAMES: Mapping[str, tuple[str, ...]] = {
    "api.openai.com": ("OPENAI_API_KEY",),
    "api.anthropic.com": ("ANTHROPIC_API_KEY",),
    "openrouter.ai": ("OPENROUTER_API_KEY",),
    "generativelanguage.googleapis.com": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "api.mistral.ai": ("MISTRAL_API_KEY",),
    "api.groq.com": ("GROQ_API_KEY",),
    "api.deepseek.com": ("DEEPSEEK_API_KEY",),
    "api.x.ai": ("XAI_API_KEY",),
    "api.together.xyz": ("TOGETHER_API_KEY",),
    "api.together.ai": ("TOGETHER_API_KEY",),
    "api.fireworks.ai": ("FIREWORKS_API_KEY",),
    "api.cerebras.ai": ("CEREBRAS_API_KEY",),
    "api.perplexity.ai": ("PERPLEXITY_API_KEY",),
    "api.cohere.com": ("COHERE_API_KEY", "CO_API_KEY"),
    "api.cohere.ai": ("COHERE_API_KEY", "CO_API_KEY"),
    "api.deepinfra.com": ("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
    "api.sambanova.ai": ("SAMBANOVA_API_KEY",),
    "api.moonshot.ai": ("MOONSHOT_API_KEY",),
    "api.z.ai": ("ZAI_API_KEY",),
    "dashscope-intl.aliyuncs.com": ("DASHSCOPE_API_KEY",),
    "dashscope.aliyuncs.com": ("DASHSCOPE_API_KEY",),
    "integrate.api.nvidia.com": ("NVIDIA_API_KEY",),
    "router.huggingface.co": ("HF_TOKEN",),
    "models.github.ai": ("GITHUB_TOKEN",),
}


def secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The key that a variable holds, or None where it is not named, not set or blank.

    A line end that came along from a file is no part of a key, and a header that carried
    it would be refused by a library that prints the header.
    """
    return ((os.environ if environ is None else environ).get(name) or "").strip() or None


def key_name(seat: Seat, environ: Mapping[str, str] | None = None) -> str:
    """The variable with a seat's key: its own, or the vendor's usual one; empty where none is."""
    if seat.api_key_env or seat.provider != "openai":
        return seat.api_key_env
    return usual_key_name(seat.base_url or OPENAI_URL, environ)


def usual_key_name(base_url: str, environ: Mapping[str, str] | None = None) -> str:
    """The usual variable for an address, of several the one that is set; empty for others."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for vendor, names in KEY_NAMES.items():
        if parts.scheme == "https" and (host == vendor or host.endswith(f".{vendor}")):
            return next((name for name in names if secret(name, environ)), names[0])
    return ""
