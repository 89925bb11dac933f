"""The errors of the use cases of machines.

ServiceError
├── UnimportableMachine   a file that cannot be taken over as a machine
├── LockHeld              the protocol's own lock is held for too long
└── LockLost              the protocol's own lock was broken by somebody else
"""

from __future__ import annotations

from service.errors import ServiceError


class UnimportableMachine(ServiceError):
    """A file that is not JSON, or does not contain the state of a known protocol."""

    code = "unimportable_state"


class LockHeld(ServiceError):
    """Another program holds the lock that the protocol defines."""

    code = "root_busy"


class LockLost(ServiceError):
    """Another program removed the lock while wfctl held it."""

    code = "root_busy"
