"""Tokens of a server: shown once, stored as a hash, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from peerage.errors import UsageError, meant, shown
from peerage.names import is_reserved
from peerage.stores import AccessToken
from peerage.types import MAX_NUMBER

Scope = Literal["read", "review", "run", "admin"]

PREFIX = "pk_"  # redaction recognises it as the beginning of a key
ID_BYTES = 4
SECRET_BYTES = 32
MAX_NAME_CHARACTERS = 100

# Permissions by scope. A reviewer may not read, because a session names the authors of answers.
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
    """Create a token; return its text, which is shown once, and the record for the store."""
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
            hint="The name is shown with the person's reviews.",
        )
    if is_reserved(name):
        raise UsageError(f"the name {shown(name)} is reserved.", hint="Choose another name.")
    if rate is not None and not 0 < rate <= MAX_NUMBER:
        raise UsageError(
            f"the rate cannot be {rate:g} requests a minute.",
            hint=f"It must be more than 0 and at most {MAX_NUMBER:,.0f}.",
        )
    if budget_usd is not None and not 0 <= budget_usd <= MAX_NUMBER:
        raise UsageError(
            f"the budget cannot be {budget_usd:g} USD.",
            hint=f"It must be from 0 to {MAX_NUMBER:,.0f}.",
        )
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    text = f"{PREFIX}{id_}_{secret}"
    return text, AccessToken(id_, name, chosen, hash_token(text), budget_usd, rate, at)


# -- logins ------------------------------------------------------------------------------------

# A login is a row in the table of tokens, so that every server of a store sees it begin and
# end. Its scopes are this word and the id of its token; by itself it permits nothing.
LOGIN = "login"
LOGIN_S = 30 * 86_400
MAX_LOGINS = 20  # of one token at a time; a further login ends the oldest


def make_login(token: AccessToken, at: float) -> tuple[str, AccessToken]:
    """Create a login of a token; return the text of its cookie and the record for the store."""
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    text = f"{PREFIX}{id_}_{secret}"
    return text, AccessToken(id_, token.name, (LOGIN, token.id), hash_token(text), None, None, at)


def is_login(token: AccessToken) -> bool:
    """Return whether a stored token is a login."""
    return token.scopes[:1] == (LOGIN,)


def token_of_login(
    login: AccessToken, tokens: Iterable[AccessToken], now: float
) -> AccessToken | None:
    """Return the token of a login, or None if the login or the token is no longer valid."""
    if not is_login(login) or not 0 <= now - login.created_at <= LOGIN_S:
        return None
    good = (token for token in tokens if token.revoked_at is None and not is_login(token))
    return next((token for token in good if (token.id,) == login.scopes[1:]), None)


def surplus_logins(
    token: AccessToken, tokens: Iterable[AccessToken], now: float
) -> list[AccessToken]:
    """Return the logins to remove before a new one: expired ones, and the oldest if too many."""
    logins = [one for one in tokens if is_login(one)]
    old = [one for one in logins if now - one.created_at > LOGIN_S]
    own = [one for one in logins if one.scopes[1:] == (token.id,) and one not in old]
    own.sort(key=lambda one: one.created_at)
    return [*old, *own[: max(0, len(own) - MAX_LOGINS + 1)]]


def hash_token(text: str) -> str:
    """Return the hash of a token; tokens are long and random, so one round is enough."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def find_token(text: str, tokens: Iterable[AccessToken]) -> AccessToken | None:
    """Return the valid token with this text; compare all of them, in constant time."""
    digest = hash_token(text)
    same = [token for token in tokens if hmac.compare_digest(digest, token.hash)]
    return next((token for token in reversed(same) if token.revoked_at is None), None)


def allowed_actions(token: AccessToken) -> frozenset[str]:
    """Return the permissions of a token."""
    scopes = (ALLOWED_BY_SCOPE[scope] for scope in get_args(Scope) if scope in token.scopes)
    return frozenset().union(*scopes)
