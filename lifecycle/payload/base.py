"""What every payload is made of: its base models and the shapes of ids and texts."""

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

from lifecycle.payload.event_types import VALUES, VERSIONS, event_type_of_model
from lifecycle.words.values import MAX_COUNT, shorten


def string_constraints(name: str) -> StringConstraints:
    """Return the constraints of a named string value, as the quick check applies them."""
    known = VALUES[name]
    least, most = known.get("minLength"), known.get("maxLength")
    return StringConstraints(pattern=known.get("pattern"), min_length=least, max_length=most)


StageId = Annotated[str, string_constraints("stage")]
AttemptId = Annotated[str, string_constraints("attempt")]
AmendmentId = Annotated[str, string_constraints("amendment")]
#: What a person decides: an amendment, or the plan as it was begun.
DecisionId = Annotated[str, string_constraints("decision")]
#: A whole number that every reader of JSON and every engine can hold.
Whole = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]


#: The context in which data are validated that wfctl did not put together itself.
_FROM_OUTSIDE: Final = "from outside"


class _CutToFit:
    """Cuts a text that wfctl puts together itself to the letters that the field may have.

    It quotes values of users and output of programs, which have any length. Text that a caller
    hands in is refused instead: nobody loses words without being told.
    """

    def __get_pydantic_core_schema__(self, of: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the value, with the cut before it."""
        return core_schema.with_info_before_validator_function(_cut_to_fit, handler(of))


def _cut_to_fit(value: Any, info: core_schema.ValidationInfo) -> Any:
    is_own = isinstance(value, str) and info.context != _FROM_OUTSIDE
    return shorten(value) if is_own else value


Text = Annotated[str, string_constraints("words"), _CutToFit()]

_PLAIN = frozenset({str, int, float, bool, type(None)})


class _AsItIs:
    """Has a value written without a look at what it is: it was found to be JSON when it came in.

    As pydantic's `SerializeAsAny`, whose module takes milliseconds of every start to load.
    """

    def __get_pydantic_core_schema__(self, of: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the value, with nothing but its serialization changed."""
        as_it_is = core_schema.simple_ser_schema("any")
        return core_schema.chain_schema([handler(of)], serialization=as_it_is)


Document = Annotated[dict[str, JsonValue], _AsItIs()]


class PayloadPart(BaseModel):
    """Base of what stands in a payload as a part of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Payload(BaseModel):
    """Base of every payload. ``type`` is the stable event name, never a class path.

    It and the schema version are said of the class's name by `lifecycle.payload.event_types`.
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
        """Return the payload that says this; raises pydantic's `ValidationError`.

        The validator is asked itself: `model_validate` takes 1.4 times as long.
        """
        found: Self = cls.__pydantic_validator__.validate_python(data, context=_FROM_OUTSIDE)
        return found

    def as_json(self) -> Document:
        """Its data as JSON values, in the order of its fields.

        Most payloads hold but texts, numbers and null, which are JSON already. For the others the
        serializer is asked itself: `model_dump` takes twice as long to pass on its options.
        """
        said = self.__dict__
        if _PLAIN.issuperset(map(type, said.values())):
            return said.copy()
        found: Document = self.__pydantic_serializer__.to_python(self, mode="json")
        return found


class StagePayload(Payload):
    """Base of the payloads that concern one stage."""

    stage: StageId


class AttemptPayload(StagePayload):
    """Base of the payloads that concern one attempt of a stage."""

    attempt: AttemptId
