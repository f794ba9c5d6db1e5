"""Logins by OpenID Connect: the authorization code flow with PKCE, state and nonce.

The provider identifies a person; a claim or the configuration gives the person's role. A token is
made at the first login. Later logins find it by issuer and subject, not by the person's name.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from peerage.config import secret
from peerage.config.settings import OidcSettings
from peerage.doors.http.access import Serving, begin_login, local_path
from peerage.errors import ConfigError, PeerageError
from peerage.hosts import is_loopback
from peerage.links import SCOPES_BY_ROLE, Role
from peerage.service import Service
from peerage.stores import AccessToken, Store, StoredDocument
from peerage.tokens import is_login, make_token

if TYPE_CHECKING:
    import aiohttp

router = APIRouter(prefix="/oidc", include_in_schema=False)

COOKIE = "peerage_oidc"
WRONG = "peerage_wrong"  # the cookie with the reason why a login was refused
COOKIE_S = 600
KNOWN_FOR_S = 3_600.0  # how long the provider's addresses and keys are used
MAX_BYTES = 1_000_000
TIMEOUT_S = 20.0
LEEWAY_S = 30
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
IDENTITY = "oidc"  # the kind of document that ties a subject to a token
MAX_NAME = 100


class OidcError(PeerageError):
    """A login by OpenID Connect was refused."""


@dataclass(slots=True)
class OidcProvider:
    """A provider of logins, with its addresses and keys as it publishes them."""

    settings: OidcSettings
    _read_at: float = float("-inf")
    _addresses: Mapping[str, Any] = field(default_factory=dict)
    _keys: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.settings.name

    def check(self) -> None:
        """Raise ConfigError if no login could work, or be safe, with these settings."""
        address = urlsplit(self.settings.issuer)
        is_safe = address.scheme == "https" or is_loopback(address.hostname or "")
        if not address.hostname or not is_safe:
            raise ConfigError("the issuer is not an https address.", place="[oidc]")
        if not self.settings.client_id:
            raise ConfigError("client_id is missing.", place="[oidc]")
        variable = self.settings.client_secret_env
        if variable and secret(variable) is None:
            raise ConfigError(f"the variable {variable} is not set.", place="[oidc]")
        if not (self.settings.role or self.settings.role_claim):
            raise ConfigError(
                "no role is given.", place="[oidc]", hint="Set role, or role_claim and roles."
            )

    async def addresses(self) -> Mapping[str, Any]:
        """Return the provider's endpoints; read them again from time to time."""
        if time.monotonic() - self._read_at > KNOWN_FOR_S:
            base = self.settings.issuer.rstrip("/")
            document = await _json("GET", f"{base}/.well-known/openid-configuration")
            if document.get("issuer", "").rstrip("/") != base:
                raise OidcError(
                    "the issuer of the sign-in provider is not the one in [oidc] issuer."
                )
            self._addresses, self._keys = document, []
            self._read_at = time.monotonic()
        return self._addresses

    async def _key(self, key_id: str | None) -> Any:
        """Return the provider's key with an id; read the keys again if it is not known."""
        import jwt

        for _ in range(2):
            for key in self._keys:
                if key_id is None or key.get("kid") == key_id:
                    return jwt.PyJWK(dict(key)).key
            document = await _json("GET", str((await self.addresses())["jwks_uri"]))
            self._keys = [key for key in document.get("keys", ()) if key.get("use") != "enc"]
        raise OidcError("the login is signed by an unknown key.")

    async def login_address(self, callback: str, pending: Mapping[str, str]) -> str:
        """Return the provider's page where a person logs in."""
        digest = hashlib.sha256(pending["verifier"].encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": callback,
            "scope": "openid email profile",
            "state": pending["state"],
            "nonce": pending["nonce"],
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = str((await self.addresses())["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    async def claims(self, code: str, callback: str, pending: Mapping[str, str]) -> dict[str, Any]:
        """Exchange a code for the claims about a person, check their signature and return them."""
        import jwt

        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self.settings.client_id,
            "code_verifier": pending["verifier"],
        }
        if self.settings.client_secret_env:
            form["client_secret"] = secret(self.settings.client_secret_env) or ""
        reply = await _json("POST", str((await self.addresses())["token_endpoint"]), form)
        text = str(reply.get("id_token", ""))
        try:
            key = await self._key(jwt.get_unverified_header(text).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=list(ALGORITHMS),
                audience=self.settings.client_id,
                issuer=(await self.addresses())["issuer"],
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except jwt.PyJWTError as error:
            raise OidcError(f"the provider's reply is not valid: {error}.") from None
        nonce = str(claims.get("nonce", ""))
        if not hmac.compare_digest(nonce.encode(), pending["nonce"].encode()):
            raise OidcError("the provider's reply belongs to another login.")
        return claims

    def role_of(self, claims: Mapping[str, Any]) -> Role:
        """Return a person's role; raise OidcError if there is none, or for a wrong mail domain."""
        settings = self.settings
        mail = str(claims.get("email", ""))
        if settings.domains:
            domain = mail.rpartition("@")[2].casefold()
            allowed = {one.casefold() for one in settings.domains}
            if claims.get("email_verified") is not True or domain not in allowed:
                raise OidcError("this address may not log in here.", hint="Ask for an invitation.")
        claimed = claims.get(settings.role_claim) if settings.role_claim else None
        values = claimed if isinstance(claimed, list) else [claimed]
        roles = [role for value, role in settings.roles.items() if value in values]
        best = [role for role in ("admin", "member", "reader", "reviewer") if role in roles]
        if best:
            return best[0]
        if not settings.role:
            raise OidcError("your account has no role here.", hint="Ask an admin for one.")
        return settings.role


async def _json(method: str, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at an address of the provider; redirects are not followed."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.request(method, address, data=form, allow_redirects=False) as response,
        ):
            return _object(response, await response.content.read(MAX_BYTES))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise OidcError(f"the provider does not answer: {error}.", hint="Try again.") from None


def _object(response: aiohttp.ClientResponse, body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if response.status != 200 or not isinstance(document, dict):
        raise OidcError(f"the provider answered HTTP {response.status}.")
    return document


def token_of(
    store: Store, claims: Mapping[str, Any], role: Role, seats: set[str], now: float
) -> AccessToken:
    """Return a person's token; a new one is made at the first login, and when the role changes."""
    identity = f"{claims['iss']} {claims['sub']}"
    tokens = [one for one in store.tokens() if one.revoked_at is None and not is_login(one)]
    known, scopes = store.document(IDENTITY, identity), SCOPES_BY_ROLE[role]
    former = [one for one in tokens if known is not None and one.id == known.body["token"]]
    if former and set(former[0].scopes) == set(scopes):
        return former[0]
    taken = {one.name.casefold() for one in tokens if one not in former} | seats
    wanted = str(claims.get("email") or claims.get("preferred_username") or claims["sub"])
    base = (former[0].name if former else wanted)[: MAX_NAME - 10]
    numbered = (f"{base} ({n})" for n in range(2, 1_000))
    name = (
        base
        if base.casefold() not in taken
        else next(one for one in numbered if one.casefold() not in taken)
    )
    _, token = make_token(name, scopes, now)
    store.add_token(token)
    for one in former:
        store.revoke_token(one.id, now)
    store.put_document(StoredDocument(IDENTITY, identity, now, name, {"token": token.id}))
    return token


# -- routes ----------------------------------------------------------------------------------------


@router.get("/login")
async def begin(request: Request, next: str = "") -> Response:
    """Redirect to the provider's login page; a cookie keeps the values to check the reply with."""
    provider: OidcProvider | None = request.app.state.oidc
    if provider is None:
        return RedirectResponse("/login", 303)
    pending = {name: secrets.token_urlsafe(24) for name in ("state", "nonce", "verifier")}
    pending["verifier"] += secrets.token_urlsafe(24)
    pending["next"] = local_path(next)[:500]
    try:
        address = await provider.login_address(callback_of(request), pending)
    except OidcError as error:
        return _refuse_login(error)
    response = RedirectResponse(address, 303)
    value = base64.urlsafe_b64encode(json.dumps(pending).encode()).decode()
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, value, COOKIE_S, path="/oidc", httponly=True, samesite="lax", secure=secure
    )
    return response


@router.get("/callback")
async def finish(
    request: Request, service: Serving, code: str = "", state: str = "", error: str = ""
) -> Response:
    """Check the provider's reply, and log the person in."""
    provider: OidcProvider | None = request.app.state.oidc
    if provider is None:
        return RedirectResponse("/login", 303)
    try:
        pending = _pending(request, state)
        if error or not code:
            raise OidcError("the provider refused the login.")
        claims = await provider.claims(code, callback_of(request), pending)
        role = provider.role_of(claims)
        token = await service.read(_token, service, claims, role)
    except OidcError as refused:
        return _refuse_login(refused)
    response = await begin_login(request, token, pending["next"])
    response.delete_cookie(COOKIE, path="/oidc")
    return response


def _token(service: Service, claims: Mapping[str, Any], role: Role) -> AccessToken:
    seats = {seat.name.casefold() for seat in service.settings.seats}
    return token_of(service.store, claims, role, seats, service.clock())


def callback_of(request: Request) -> str:
    """Return the address that the provider sends people back to."""
    return f"{str(request.base_url).rstrip('/')}/oidc/callback"


def _pending(request: Request, state: str) -> dict[str, str]:
    """Return the values of the login that this browser began; refuse a reply to another login."""
    try:
        pending = json.loads(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")))
        same = hmac.compare_digest(pending["state"].encode(), state.encode())
    except (ValueError, KeyError, TypeError, AttributeError):
        same = False
    if not same:
        raise OidcError("this login was not begun here, or it took too long.", hint="Try again.")
    return {name: str(value) for name, value in pending.items()}


def _refuse_login(error: OidcError) -> Response:
    """Redirect to the login page, which shows the reason.

    A cookie carries the reason, so that a link cannot fake one.
    """
    response = RedirectResponse("/login", 303)
    words = quote(f"{error.message} {error.hint}".strip())
    response.set_cookie(WRONG, words, 60, path="/login", httponly=True, samesite="lax")
    return response


def why_refused(request: Request) -> str:
    """Return why the last login by OpenID Connect was refused, or an empty string."""
    return unquote(request.cookies.get(WRONG, ""))[:500]
