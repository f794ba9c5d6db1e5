"""LangChain's ChatOpenAI."""

from _client_report import QUESTION, UNKNOWN, URL, Judgement, error_of, report
from langchain_openai import ChatOpenAI
from openai import NotFoundError

model = ChatOpenAI(model="council", base_url=URL, api_key="none")
by_schema = model.with_structured_output(Judgement)
by_function = model.with_structured_output(Judgement, method="function_calling")
unknown = ChatOpenAI(model=UNKNOWN, base_url=URL, api_key="none")
report(
    chat=model.invoke(QUESTION).content,
    streamed="".join(chunk.content for chunk in model.stream(QUESTION)),
    structured=by_schema.invoke(QUESTION),
    called=by_function.invoke(QUESTION),
    error=error_of(lambda: unknown.invoke(QUESTION), NotFoundError),
)
