"""A client's question to the council: checked, and turned into arguments of a session."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from peerage.config.settings import MAX_NAME
from peerage.messages import MAX_IMAGES, read_image
from peerage.reports.session_options import ClientOptions, Metadata
from peerage.structured import check_schema
from peerage.types import MAX_QUERY_CHARACTERS, Image, OutputFormat, Turn, TypedQuestion

MAX_ANSWERS_GIVEN = 200  # on one ballot
Images = Annotated[
    tuple[Annotated[Image, BeforeValidator(lambda value: read_image(value, "images"))], ...],
    Field(
        max_length=MAX_IMAGES,
        description="Images, each a data URL or a link, or an object with a `url`. Seats with "
        "`images = true` get them; other seats are told that there are images.",
    ),
]


class EarlierTurn(BaseModel):
    """One message of a conversation before the question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant"]
    content: str = Field(max_length=MAX_QUERY_CHARACTERS)
    images: Images = ()

    @property
    def turn(self) -> Turn:
        """Return the message as a `Turn`."""
        return Turn(self.role, self.content, self.images)


class SessionRequest(ClientOptions):
    """A question to the council and the options of the session."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARACTERS,
        description="The question.",
        examples=["Is a tomato a fruit or a vegetable?"],
    )
    category: str = Field(
        default="", max_length=MAX_NAME, description="Category of the question; may set the rubric."
    )
    seats: tuple[str, ...] = Field(default=(), description="Use only these seats of the panel.")
    images: Images = ()
    answers: dict[str, str | list[dict[str, Any]]] | None = Field(
        default=None,
        max_length=MAX_ANSWERS_GIVEN,
        description="Answers to judge, by name, instead of asking the seats: texts, or lists of "
        "messages in OpenAI's format, with tool calls and their results.",
    )
    system: str = Field(
        default="", max_length=MAX_QUERY_CHARACTERS, description="System prompt for the seats."
    )
    earlier: tuple[EarlierTurn, ...] = Field(
        default=(), description="The conversation before the question."
    )
    after: str = Field(
        default="", description="The id of an earlier session that this question follows."
    )
    metadata: Metadata = Field(
        default_factory=dict, description="Texts by name that are stored with the session."
    )
    output_schema: dict[str, Any] | None = Field(
        default=None, description="A JSON schema: the verdict is JSON that follows it."
    )
    output_strict: bool = Field(
        default=False, description="Whether providers must follow the schema exactly."
    )
    output_function: str = Field(
        default="", max_length=MAX_NAME, description="Name of the function that takes the JSON."
    )

    questions: tuple[TypedQuestion, ...] = Field(
        default=(), description="Typed questions about the text, which the panel votes on."
    )

    @cached_property
    def output(self) -> OutputFormat | None:
        """Return the JSON format of the verdict, or None; refuse a schema that cannot be used.

        The schema of a large request takes a while to check, so it is checked once.
        """
        if self.output_schema is None:
            return None
        text = check_schema(self.output_schema)
        return OutputFormat(text, self.output_function, self.output_strict)

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of `Council.open`."""
        keywords: dict[str, Any] = {
            name.removeprefix("council."): value for name, value in self.flags().items()
        }
        keywords |= self.model_dump(include={"seats", "answers", "system", "after", "metadata"})
        keywords["earlier"] = tuple(turn.turn for turn in self.earlier)
        keywords["images"] = self.images
        keywords["output"] = self.output
        keywords["questions"] = self.questions
        return {name: value for name, value in keywords.items() if value not in (None, (), {})}
