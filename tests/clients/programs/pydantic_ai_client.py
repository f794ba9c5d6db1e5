"""pydantic-ai: an agent with an output type, by a tool and by the model's own schema."""

import asyncio

from _client_report import QUESTION, UNKNOWN, URL, Judgement, error_of, report
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=URL, api_key="none")
model = OpenAIChatModel("council", provider=provider)


async def streamed() -> str:
    async with Agent(model).run_stream(QUESTION) as result:
        return [text async for text in result.stream_text()][-1]


report(
    chat=Agent(model).run_sync(QUESTION).output,
    streamed=asyncio.run(streamed()),
    structured=Agent(model, output_type=NativeOutput(Judgement)).run_sync(QUESTION).output,
    called=Agent(model, output_type=Judgement).run_sync(QUESTION).output,
    error=error_of(
        lambda: Agent(OpenAIChatModel(UNKNOWN, provider=provider)).run_sync(QUESTION),
        ModelHTTPError,
    ),
)
