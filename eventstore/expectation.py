"""What a writer may demand before anything is recorded."""

from typing import NamedTuple

from eventstore.errors import CommandConflict, InvalidData, WrongExpectedVersion
from eventstore.store import Claim, Expected


class Command(NamedTuple):
    """A claimed command and the versions that it recorded; none if first is after last."""

    stream: str
    digest: str
    first_version: int
    last_version: int


def is_met(expected: int | Expected, found: int) -> bool:
    """Whether a stream at version `found` (0: none) is as expected."""
    if isinstance(expected, int):
        return expected == found
    if expected is Expected.NO_STREAM:
        return found == 0
    return expected is Expected.ANY or found > 0


def require_version(stream: str, expected: int | Expected, found: int) -> None:
    """Raises WrongExpectedVersion unless a stream at `found` (0: none) is as expected."""
    if not is_met(expected, found):
        demand = expected if isinstance(expected, int) else expected.value
        raise WrongExpectedVersion(stream, demand, found)


def require_same(claim: Claim, known: Command, stream: str | None = None) -> None:
    """Raises CommandConflict unless the claim is the known command's."""
    if claim.digest != known.digest or stream not in (None, known.stream):
        raise CommandConflict(claim.command_id, known.stream)


def require_name(stream: str) -> None:
    """Raises InvalidData unless every engine can store the name of the stream."""
    if not stream or "\0" in stream:
        raise InvalidData("stream", f"the name {stream!r}")
