"""Base classes of all event payloads, and the types of ids and text fields."""

from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    StringConstraints,
)
from pydantic_core import CoreSchema, core_schema

from lifecycle.payload.check_data import VALUES
from lifecycle.payload.event_types import VERSIONS, event_type_of_model
from lifecycle.words.limits import MAX_COUNT, shorten


def string_constraints(name: str) -> StringConstraints:
    """Return the pydantic constraints of a named kind of string, such as "stage".

    They equal the constraints of the quick check without pydantic.
    """
    known = VALUES[name]
    least, most = known.get("minLength"), known.get("maxLength")
    return StringConstraints(pattern=known.get("pattern"), min_length=least, max_length=most)


StageId = Annotated[str, string_constraints("stage")]
AttemptId = Annotated[str, string_constraints("attempt")]
AmendmentId = Annotated[str, string_constraints("amendment")]
#: Id of something that a person approves or rejects: an amendment, or the initial plan.
DecisionId = Annotated[str, string_constraints("decision")]
#: An integer in the range that all JSON parsers and databases support.
Whole = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]


#: Validation context of data that comes from a caller and was not built by wfctl.
_FROM_OUTSIDE: Final = "from outside"


class _CutToFit:
    """Shortens text that wfctl itself builds to the maximum length of the field.

    Such text quotes users' values and the output of programs, which can have any length. Text from
    a caller is rejected if it is too long, because it must not be shortened silently.
    """

    def __get_pydantic_core_schema__(self, of: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a pydantic schema that shortens the text before validating it."""
        return core_schema.with_info_before_validator_function(_cut_to_fit, handler(of))


def _cut_to_fit(value: Any, info: core_schema.ValidationInfo) -> Any:
    is_own = isinstance(value, str) and info.context != _FROM_OUTSIDE
    return shorten(value) if is_own else value


Text = Annotated[str, string_constraints("words"), _CutToFit()]

_PLAIN = frozenset({str, int, float, bool, type(None)})


class _AsItIs:
    """Serializes a value unchanged, because it was checked to be JSON when it was received.

    This replaces pydantic's `SerializeAsAny`, because importing that takes milliseconds.
    """

    def __get_pydantic_core_schema__(self, of: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the pydantic schema of the value. Only its serialization differs."""
        as_it_is = core_schema.simple_ser_schema("any")
        return core_schema.chain_schema([handler(of)], serialization=as_it_is)


Document = Annotated[dict[str, JsonValue], _AsItIs()]


class PayloadPart(BaseModel):
    """Base class of an object inside an event payload."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Payload(BaseModel):
    """Base class of every event payload.

    ``type`` is the name of the event, which never changes. `lifecycle.payload.event_types` derives
    it and the schema version from the name of the class.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )
    type: ClassVar[str]
    schema_version: ClassVar[int]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.type = event_type_of_model(cls.__name__)
        cls.schema_version = VERSIONS.get(cls.type, 1)

    @classmethod
    def of(cls, data: Document) -> Self:
        """Build the payload from data of a caller. Raises pydantic's `ValidationError`.

        The validator is called directly, because `model_validate` takes 1.4 times as long.
        """
        found: Self = cls.__pydantic_validator__.validate_python(data, context=_FROM_OUTSIDE)
        return found

    def as_json(self) -> Document:
        """Return the data of the payload as JSON values, in the order of its fields.

        The values of most payloads are already strings, numbers or null. Otherwise the serializer
        is called directly, because `model_dump` takes twice as long.
        """
        said = self.__dict__
        if _PLAIN.issuperset(map(type, said.values())):
            return said.copy()
        found: Document = self.__pydantic_serializer__.to_python(self, mode="json")
        return found


class StagePayload(Payload):
    """Base class of the payloads of events about one stage."""

    stage: StageId


class AttemptPayload(StagePayload):
    """Base class of the payloads of events about one attempt of a stage."""

    attempt: AttemptId
