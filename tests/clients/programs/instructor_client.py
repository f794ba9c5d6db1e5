"""instructor: a response model, by a forced function and by a JSON schema."""

import instructor
from _client_report import QUESTION, UNKNOWN, URL, Judgement, error_of, report
from instructor.core import InstructorRetryException
from openai import OpenAI

plain = OpenAI(base_url=URL, api_key="none")
by_function = instructor.from_openai(plain)
by_schema = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
question = {"model": "council", "messages": [{"role": "user", "content": QUESTION}]}
report(
    chat=by_schema.create(response_model=str, **question),
    structured=by_schema.create(response_model=Judgement, **question),
    called=by_function.create(response_model=Judgement, **question),
    error=error_of(
        lambda: by_schema.create(response_model=Judgement, **{**question, "model": UNKNOWN}),
        InstructorRetryException,
    ),
)
