"""The OpenAI SDK over our own connections, asked for as little as it can be asked for.

Its typed calls take twice the CPU of a bare HTTP client, most of it in models of a document
from which we want four fields; so it is given bytes and asked for the raw response. It also
reads a dozen OPENAI_* variables, some of them keys, and would send them to any endpoint that
speaks the protocol; so only the headers in `SENT` leave, and only the key it was handed.
"""

from __future__ import annotations

from typing import Any, cast

import httpx2
import openai
from openai import RequestOptions

from peerage.providers.wire.http import Answer, Wire

SENT = ("authorization", "content-type", "accept", "user-agent")


class Client:
    """One endpoint through the SDK; it never retries, since each attempt must be seen."""

    def __init__(self, wire: Wire, base_url: str, key: str | None) -> None:
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=base_url,
            max_retries=0,
            # Named here, it keeps a header of that name out of OPENAI_CUSTOM_HEADERS.
            default_headers={"Authorization": f"Bearer {key}"},
            http_client=_Pool(wire),
        )
        self._options: RequestOptions = {}
        if key is None:
            self._options = {"headers": {"Authorization": openai.Omit()}}
        self._client.admin_api_key = None
        self._client.organization = None
        self._client.project = None

    async def post(self, body: bytes) -> Answer:
        try:
            response = await self._client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=body,
                options=self._options,
            )
        except openai.APIStatusError as error:
            response = error.response
        return cast("Answer", response.extensions["answer"])

    async def close(self) -> None:
        await self._client.close()


class _Pool(httpx2.AsyncClient):
    """The SDK's HTTP client, without what a call to one endpoint has no use for.

    The response it gives the SDK has the status and, if that is an error, the body; the
    answer itself travels beside it, so that a stream is not read before its time.
    """

    def __init__(self, wire: Wire) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport())
        self._wire = wire
        self._url = httpx2.URL(str(wire.url))  # parsed once: there is no other

    def build_request(self, method: str, url: object, **about: Any) -> httpx2.Request:  # noqa: ARG002
        body = {"body": about["content"]}
        return httpx2.Request(method, self._url, headers=about["headers"], extensions=body)

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        given = request.headers
        headers = {name: given[name] for name in SENT if name in given}
        answer = await self._wire.post(request.extensions["body"], headers)
        return httpx2.Response(
            answer.status,
            content=answer.body if answer.status >= 400 else None,
            request=request,
            extensions={"answer": answer},
        )

    async def aclose(self) -> None:
        await super().aclose()
        await self._wire.close()
