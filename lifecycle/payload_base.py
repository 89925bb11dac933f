"""What every payload is made of: its base models and the shapes of ids and texts."""

from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints

StageId = Annotated[str, StringConstraints(pattern=r"^stage-[1-9][0-9]*$")]
AttemptId = Annotated[str, StringConstraints(pattern=r"^att-[0-9]{4,}$")]
AmendmentId = Annotated[str, StringConstraints(pattern=r"^amend-[1-9][0-9]*$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
Document = dict[str, JsonValue]


class Payload(BaseModel):
    """Base of every payload. ``type`` is the stable event name, never a class path."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )
    type: ClassVar[str]
    schema_version: ClassVar[int] = 1

    @classmethod
    def of(cls, data: Document) -> Self:
        """Return the payload that says this; raises pydantic's `ValidationError`.

        The validator is asked itself: `model_validate` takes 1.4 times as long.
        """
        found: Self = cls.__pydantic_validator__.validate_python(data)
        return found

    def as_json(self) -> Document:
        """Its data as JSON values, in the order of its fields.

        The serializer is asked itself: `model_dump` takes twice as long to pass on its options.
        """
        found: Document = self.__pydantic_serializer__.to_python(self, mode="json")
        return found


class StagePayload(Payload):
    """Base of the payloads that concern one stage."""

    stage: StageId


class AttemptPayload(StagePayload):
    """Base of the payloads that concern one attempt of a stage."""

    attempt: AttemptId
