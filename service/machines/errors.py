"""The errors of the use cases of machines.

ServiceError
├── VersionConflict       the machine is not at the version that the caller expects
├── UnimportableMachine   a file that cannot be taken over as a machine
├── LockHeld              the protocol's own lock is held for too long
└── LockLost              the protocol's own lock was broken by somebody else
"""

from __future__ import annotations

from eventstore.errors import WrongExpectedVersion
from service.errors import ServiceError


class VersionConflict(ServiceError):
    """The machine is not at the version that the caller expects."""

    code = "VERSION_CONFLICT"

    def __init__(self, machine: str, error: WrongExpectedVersion) -> None:
        super().__init__(
            f"{machine}: expected version {error.expected}, found version {error.found}; look at "
            f"it again (`wfctl machine get {machine}`) and decide anew.",
            machine=machine,
            expected=error.expected,
            found=error.found,
        )


class UnimportableMachine(ServiceError):
    """A file that cannot be taken over: it is not JSON, or no state of a known protocol."""

    code = "unimportable_state"


class LockHeld(ServiceError):
    """Another program holds the protocol's own lock."""

    code = "root_busy"


class LockLost(ServiceError):
    """Another program broke the protocol's own lock while it was held here."""

    code = "root_busy"
