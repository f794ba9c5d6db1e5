"""Host names: whether one is this machine, and whether one belongs to a vendor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

OPENAI_URL = "https://api.openai.com/v1"  # where a seat without a base_url goes

# The usual names of the environment variables for API keys, by host. A key is sent only to its
# host or a subdomain of it, and only by https.
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
    "api.typesafe.ai": ("TYPESAFE_API_KEY",),
}
USER_PASSWORD = re.compile(r"^([\w+.-]+:?//)?([^:@/]*):(?!//).*@")
PASSWORD_OPTION = re.compile(r"(?i)(password\w{0,20}=)[^&\s]*")


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Return whether an address or a name is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost")


def is_this_machine(host: str) -> bool:
    """Return whether calls to a host stay here; for names below localhost that is not certain."""
    return host == "localhost" or (is_loopback(host) and not host.rstrip(".").endswith("localhost"))


def is_host_of(host: str, domain: str) -> bool:
    """Return whether a host is this domain or below it."""
    return host == domain or host.endswith(f".{domain}")


def without_password(url: str) -> str:
    """Return a store's URL with its password removed."""
    return PASSWORD_OPTION.sub(r"\1…", USER_PASSWORD.sub(r"\1\2@", url))
