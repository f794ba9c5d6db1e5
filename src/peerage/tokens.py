"""Tokens of a server: made once, kept as a hash, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from peerage.errors import UsageError, meant
from peerage.stores import AccessToken

Scope = Literal["read", "review", "run", "admin"]

PREFIX = "pk_"  # known as the beginning of a key to whatever must not show one
ID_BYTES = 4
SECRET_BYTES = 32
MAX_NAME_CHARACTERS = 100

# What a token of a scope may do. A reviewer may not read: a session says whose the answers are.
ALLOWED_BY_SCOPE: Mapping[Scope, frozenset[str]] = {
    "read": frozenset({"read"}),
    "review": frozenset({"review"}),
    "run": frozenset({"read", "run"}),
    "admin": frozenset({"read", "review", "run", "admin"}),
}


def make_token(
    name: str,
    scopes: Iterable[str],
    at: float,
    budget_usd: float | None = None,
    rate: float | None = None,
) -> tuple[str, AccessToken]:
    """A new token: the text that its owner is given once, and what the store keeps."""
    chosen = tuple(dict.fromkeys(scopes))
    for scope in chosen:
        if scope not in ALLOWED_BY_SCOPE:
            raise UsageError(f"there is no scope {scope!r}.", hint=meant(scope, get_args(Scope)))
    if not chosen:
        raise UsageError("a token needs a scope.", hint=f"Known: {', '.join(get_args(Scope))}.")
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise UsageError(
            f"a token needs a name of at most {MAX_NAME_CHARACTERS} characters on one line.",
            hint="People review under it.",
        )
    if rate is not None and not 0 < rate < math.inf:
        raise UsageError(f"a token cannot make {rate:g} requests a minute.", hint="More than 0.")
    if budget_usd is not None and not 0 <= budget_usd < math.inf:
        raise UsageError(f"a token cannot have a budget of {budget_usd:g} USD.", hint="0 or more.")
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    text = f"{PREFIX}{id_}_{secret}"
    return text, AccessToken(id_, name, chosen, hashed(text), budget_usd, rate, at)


def hashed(text: str) -> str:
    """What is kept of a token: it is long and random, so one round is enough."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def matching(text: str, tokens: Iterable[AccessToken]) -> AccessToken | None:
    """The token of this text that is still good; every one is compared, in constant time."""
    digest = hashed(text)
    same = [token for token in tokens if hmac.compare_digest(digest, token.hash)]
    return next((token for token in reversed(same) if token.revoked_at is None), None)


def allowed(token: AccessToken) -> frozenset[str]:
    """Everything that a token may do."""
    scopes = (ALLOWED_BY_SCOPE[scope] for scope in get_args(Scope) if scope in token.scopes)
    return frozenset().union(*scopes)
