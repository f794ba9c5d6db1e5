"""Logins by OpenID Connect: the authorization code flow with PKCE, state and nonce.

The provider identifies a person; a claim or the configuration gives the person's role. A token is
made at the first login. Later logins find it by issuer and subject, not by the person's name.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
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
from peerage.members import is_barred, is_revoked, people_names, persons, seat_names
from peerage.names import is_reserved, keys_of
from peerage.providers.chat_replies import body_of
from peerage.service import Service
from peerage.stores import AccessToken, Store, StoredDocument
from peerage.text import is_unicode
from peerage.tokens import make_token

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
ADDRESS_SIGNS = re.compile("[@\ufe6b\uff20]")  # also its forms of other widths
PENDING = ("state", "nonce", "verifier", "next")  # what is kept of a login that has begun


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
            if _text(document, "issuer").rstrip("/") != base:
                raise OidcError(
                    "the issuer of the sign-in provider is not the one in [oidc] issuer."
                )
            self._addresses, self._keys = document, []
            self._read_at = time.monotonic()
        return self._addresses

    async def _key(self, key_id: str | None) -> Any:
        """Return the provider's key with an id; read the keys again if it is not known."""
        for _ in range(2):
            for key in self._keys:
                if key_id is None or key.get("kid") == key_id:
                    return _read_key(key)
            document = await _json("GET", _text(await self.addresses(), "jwks_uri"))
            keys = document.get("keys")
            keys = [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
            self._keys = [key for key in keys if key.get("use") != "enc"]
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
        address = _text(await self.addresses(), "authorization_endpoint")
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
        reply = await _json("POST", _text(await self.addresses(), "token_endpoint"), form)
        text = _text(reply, "id_token")
        try:
            key = await self._key(jwt.get_unverified_header(text).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=list(ALGORITHMS),
                audience=self.settings.client_id,
                issuer=_text(await self.addresses(), "issuer"),
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except jwt.PyJWTError as error:
            raise OidcError(f"the provider's reply is not valid: {error}.") from None
        self._check_audience(claims)
        nonce = str(claims.get("nonce", ""))
        if not hmac.compare_digest(_bytes(nonce), pending["nonce"].encode()):
            raise OidcError("the provider's reply belongs to another login.")
        return claims

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        """Refuse a token that was issued to another client, though it also names this one."""
        party, audience = claims.get("azp"), claims["aud"]
        is_shared = isinstance(audience, list) and len(audience) > 1
        if party != self.settings.client_id and (party is not None or is_shared):
            raise OidcError("the provider's reply is for another client.")

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
            body, is_whole = await body_of(response, MAX_BYTES)
            return _object(response, body if is_whole else b"")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise OidcError(f"the provider does not answer: {error}.", hint="Try again.") from None


def _object(response: aiohttp.ClientResponse, body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None  # not JSON, or too long
    if response.status != 200 or not isinstance(document, dict):
        raise OidcError(f"the provider answered HTTP {response.status}.")
    return document


def _text(document: Mapping[str, Any], name: str) -> str:
    """Return a text in a reply of the provider; raise OidcError if there is none."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise OidcError(f"the provider's reply has no {name}.")
    return value


def _read_key(key: Mapping[str, Any]) -> Any:
    import jwt

    try:
        return jwt.PyJWK(dict(key)).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise OidcError("the provider's key cannot be read.") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# -- people ----------------------------------------------------------------------------------------


def token_of(
    store: Store, claims: Mapping[str, Any], role: Role, seats: set[str], now: float
) -> AccessToken:
    """Return a person's token; a new one is made at the first login, and when the role changes.

    A person whose token was revoked is refused until `peerage token allow`.
    """
    identity = f"{claims['iss']} {claims['sub']}"
    known, scopes = store.document(IDENTITY, identity), SCOPES_BY_ROLE[role]
    id_ = known.body["token"] if known is not None else ""
    former = next((one for one in persons(store) if one.id == id_), None)
    if former is not None and is_revoked(store, former):
        raise OidcError("you no longer have access to this server.", hint="Ask an admin.")
    if former is not None and former.revoked_at is None and set(former.scopes) == set(scopes):
        return former
    if known is None and (mail := _verified_mail(claims)) and is_barred(store, mail):
        raise OidcError("you no longer have access to this server.", hint="Ask an admin.")
    name = known.who if known is not None else _free_name(claims, identity, store, seats)
    _, token = make_token(name, scopes, now)
    store.add_token(token)
    if former is not None and former.revoked_at is None:
        store.revoke_token(former.id, now)
    store.put_document(StoredDocument(IDENTITY, identity, now, name, {"token": token.id}))
    return token


def _free_name(claims: Mapping[str, Any], identity: str, store: Store, seats: Iterable[str]) -> str:
    """Return a name for a new person that no person has or had, and that looks like no other."""
    wanted = claimed_name(claims) or f"member {hashlib.sha256(_bytes(identity)).hexdigest()[:8]}"
    base = wanted[: MAX_NAME - 10]
    taken = {key for name in (*people_names(store), *seats) for key in keys_of(name)}
    names = itertools.chain([base], (f"{base} ({n})" for n in itertools.count(2)))
    return next(one for one in names if not (keys_of(one) & taken or is_reserved(one)))


def _verified_mail(claims: Mapping[str, Any]) -> str:
    """Return the address that the provider has verified, or an empty string."""
    return _line(claims.get("email")) if claims.get("email_verified") is True else ""


def claimed_name(claims: Mapping[str, Any]) -> str:
    """Return the name that the provider vouches for, or an empty string.

    An address names a person only if the provider has verified it; anyone can enter another.
    """
    if mail := _verified_mail(claims):
        return mail
    others = (_line(claims.get(name)) for name in ("preferred_username", "sub"))
    return next((one for one in others if one and not ADDRESS_SIGNS.search(one)), "")


def _line(value: object) -> str:
    """Return a text without characters that are not printable, or an empty string."""
    return "".join(filter(str.isprintable, value)).strip() if isinstance(value, str) else ""


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
    except PeerageError as refused:
        return _refuse_login(refused)
    response = await begin_login(request, token, pending["next"])
    response.delete_cookie(COOKIE, path="/oidc")
    return response


def _token(service: Service, claims: Mapping[str, Any], role: Role) -> AccessToken:
    seats = seat_names(service.store, service.configured)
    return token_of(service.store, claims, role, seats, service.clock())


def callback_of(request: Request) -> str:
    """Return the address that the provider sends people back to."""
    return f"{str(request.base_url).rstrip('/')}/oidc/callback"


def _pending(request: Request, state: str) -> dict[str, str]:
    """Return the values of the login that this browser began; refuse a reply to another login."""
    try:
        cookie = json.loads(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")))
        pending = {name: cookie[name] for name in PENDING}
        same = hmac.compare_digest(pending["state"].encode(), _bytes(state))
        same = same and all(isinstance(one, str) and is_unicode(one) for one in pending.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        same = False
    if not same:
        raise OidcError("this login was not begun here, or it took too long.", hint="Try again.")
    return pending


def _refuse_login(error: PeerageError) -> Response:
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
