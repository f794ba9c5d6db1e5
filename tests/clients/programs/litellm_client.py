"""litellm, which proxies and agents use."""

import litellm
from _client_report import QUESTION, UNKNOWN, URL, Judgement, error_of, report

litellm.suppress_debug_info = True
where = {
    "api_base": URL,
    "api_key": "none",
    "messages": [{"role": "user", "content": QUESTION}],
    "num_retries": 0,
}
chat = litellm.completion(model="openai/council", **where)
stream = litellm.completion(model="openai/council", stream=True, **where)
structured = litellm.completion(model="openai/council", response_format=Judgement, **where)
report(
    chat=chat.choices[0].message.content,
    streamed="".join(chunk.choices[0].delta.content or "" for chunk in stream),
    structured=Judgement.model_validate_json(structured.choices[0].message.content),
    error=error_of(
        lambda: litellm.completion(model=f"openai/{UNKNOWN}", **where), litellm.NotFoundError
    ),
)
