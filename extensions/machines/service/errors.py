"""The errors of services for phase machines.

ServiceError
├── UnimportableMachine   the file cannot be imported as a machine
├── LockHeld              another process keeps the protocol's lock
└── LockLost              another process removed the protocol's lock
"""

from __future__ import annotations

from service.errors import ServiceError


class UnimportableMachine(ServiceError):
    """The file is not the JSON state of a known protocol."""

    code = "unimportable_state"


class LockHeld(ServiceError):
    """Another program holds the lock that the protocol defines."""

    code = "root_busy"


class LockLost(ServiceError):
    """Another program removed the lock while wfctl held it."""

    code = "root_busy"
