"""Tokens of a server: made once, kept as a hash, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from peerage.errors import UsageError, meant
from peerage.stores import AccessToken
from peerage.types import MAX_NUMBER

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
    if rate is not None and not 0 < rate <= MAX_NUMBER:
        raise UsageError(
            f"a token cannot make {rate:g} requests a minute.",
            hint=f"More than 0, at most {MAX_NUMBER:,.0f}.",
        )
    if budget_usd is not None and not 0 <= budget_usd <= MAX_NUMBER:
        raise UsageError(
            f"a token cannot have a budget of {budget_usd:g} USD.",
            hint=f"From 0 to {MAX_NUMBER:,.0f}.",
        )
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    text = f"{PREFIX}{id_}_{secret}"
    return text, AccessToken(id_, name, chosen, hashed(text), budget_usd, rate, at)


# -- logins: what a browser holds in place of a token ------------------------------------------

# A login is a row among the tokens, so that every server of a store knows it and knows its end.
# Its scopes are this word and the id of the token it stands for; by itself it opens nothing.
LOGIN = "login"
LOGIN_S = 30 * 86_400
MAX_LOGINS = 20  # of one token at a time; the oldest ends


def make_login(token: AccessToken, at: float) -> tuple[str, AccessToken]:
    """Return a new login of a token: the text of its cookie, and what the store keeps."""
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    text = f"{PREFIX}{id_}_{secret}"
    return text, AccessToken(id_, token.name, (LOGIN, token.id), hashed(text), None, None, at)


def is_login(token: AccessToken) -> bool:
    """Whether a stored token is a login of another one."""
    return token.scopes[:1] == (LOGIN,)


def token_of_login(
    login: AccessToken, tokens: Iterable[AccessToken], now: float
) -> AccessToken | None:
    """Return the token that a login stands for, or None once either has ended."""
    if not is_login(login) or not 0 <= now - login.created_at <= LOGIN_S:
        return None
    good = (token for token in tokens if token.revoked_at is None and not is_login(token))
    return next((token for token in good if (token.id,) == login.scopes[1:]), None)


def surplus_logins(
    token: AccessToken, tokens: Iterable[AccessToken], now: float
) -> list[AccessToken]:
    """Return the logins to remove before another one of a token: old ones, and one too many."""
    logins = [one for one in tokens if is_login(one)]
    old = [one for one in logins if now - one.created_at > LOGIN_S]
    own = [one for one in logins if one.scopes[1:] == (token.id,) and one not in old]
    own.sort(key=lambda one: one.created_at)
    return [*old, *own[: max(0, len(own) - MAX_LOGINS + 1)]]


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
