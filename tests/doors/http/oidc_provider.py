"""A small provider of OpenID Connect: it logs one person in, and signs with a key of its own."""

import asyncio
import base64
import hashlib
import json
import secrets
import socket
import threading
import time
from contextlib import contextmanager

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Form, HTTPException
from starlette.responses import RedirectResponse, StreamingResponse

CLIENT, SECRET = "peerage-tests", "not-a-secret"


class Provider:
    """The person who is logged in, and the key that signs."""

    def __init__(self, issuer):
        self.issuer = issuer
        self.key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        self.claims = {"sub": "1", "email": "zoe@example.org", "email_verified": True}
        self.codes = {}
        self.changed = {}  # claims that are wrong on purpose
        self.broken = {}  # replies that are wrong on purpose, by path

    def jwks(self):
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "k1", "use": "sig"}]}

    def id_token(self, nonce):
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": nonce}
        return jwt.encode(
            {**claims, **self.claims, **self.changed}, self.key, "RS256", headers={"kid": "k1"}
        )


def provider_app(provider):
    app = FastAPI()

    def in_pieces(path, document):
        """A reply whose two halves come apart, as slow providers send them."""
        text = json.dumps(provider.broken.get(path, document))

        async def halves():
            yield text[: len(text) // 2]
            await asyncio.sleep(0.05)
            yield text[len(text) // 2 :]

        return StreamingResponse(halves(), media_type="application/json")

    @app.get("/.well-known/openid-configuration")
    def configuration():
        document = {
            "issuer": provider.issuer,
            "authorization_endpoint": f"{provider.issuer}/authorize",
            "token_endpoint": f"{provider.issuer}/token",
            "jwks_uri": f"{provider.issuer}/keys",
        }
        return in_pieces("configuration", document)

    @app.get("/authorize")
    def authorize(client_id: str, redirect_uri: str, state: str, nonce: str, code_challenge: str):
        assert client_id == CLIENT
        code = secrets.token_urlsafe(8)
        provider.codes[code] = (nonce, code_challenge, redirect_uri)
        return RedirectResponse(f"{redirect_uri}?code={code}&state={state}", 302)

    @app.post("/token")
    def token(
        code: str = Form(),
        code_verifier: str = Form(),
        redirect_uri: str = Form(),
        client_secret: str = Form(),
    ):
        nonce, challenge, address = provider.codes.pop(code)
        digest = hashlib.sha256(code_verifier.encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (proof, address, client_secret) != (challenge, redirect_uri, SECRET):
            raise HTTPException(400)
        document = {"id_token": provider.id_token(nonce), "token_type": "Bearer"}
        return in_pieces("token", document)

    @app.get("/keys")
    def keys():
        return in_pieces("keys", provider.jwks())

    return app


@contextmanager
def running_provider():
    """The provider on a loopback port."""
    listening = socket.create_server(("127.0.0.1", 0))
    provider = Provider(f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(provider_app(provider), log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield provider
    server.should_exit = True
    thread.join(60)
