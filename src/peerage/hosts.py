"""Host names: whether one is this machine, and whether one belongs to a vendor."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Return whether an address or a name is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost")


def is_host_of(host: str, domain: str) -> bool:
    """Return whether a host is this domain or below it."""
    return host == domain or host.endswith(f".{domain}")
