"""openai-agents: an agent over chat completions and one over responses."""

import asyncio

from _client_report import QUESTION, UNKNOWN, URL, Judgement, report
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI, NotFoundError

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=URL, api_key="none")
chat_model = OpenAIChatCompletionsModel("council", openai_client=client)
responses_model = OpenAIResponsesModel("council", openai_client=client)
unknown = OpenAIChatCompletionsModel(UNKNOWN, openai_client=client)


async def run() -> None:
    streaming = Runner.run_streamed(Agent(name="streamed", model=responses_model), QUESTION)
    deltas = [
        event.data.delta
        async for event in streaming.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    judge = Agent(name="judge", model=chat_model, output_type=Judgement)
    chat = await Runner.run(Agent(name="chat", model=chat_model), QUESTION)
    try:
        await Runner.run(Agent(name="unknown", model=unknown), QUESTION)
        error = ""
    except NotFoundError as refused:
        error = str(refused)
    report(
        chat=chat.final_output,
        streamed="".join(deltas),
        structured=(await Runner.run(judge, QUESTION)).final_output,
        error=error,
    )


asyncio.run(run())
