"""The openai package."""

from _client_report import QUESTION, UNKNOWN, URL, Judgement, error_of, report
from openai import NotFoundError, OpenAI

client = OpenAI(base_url=URL, api_key="none")
messages = [{"role": "user", "content": QUESTION}]
chat = client.chat.completions.create(model="council", messages=messages)
stream = client.chat.completions.create(model="council", messages=messages, stream=True)
parsed = client.chat.completions.parse(
    model="council", messages=messages, response_format=Judgement
)
response = client.responses.create(model="council", input=QUESTION)
report(
    chat=chat.choices[0].message.content,
    streamed="".join(chunk.choices[0].delta.content or "" for chunk in stream),
    structured=parsed.choices[0].message.parsed,
    response=response.output_text,
    error=error_of(
        lambda: client.chat.completions.create(model=UNKNOWN, messages=messages), NotFoundError
    ),
)
