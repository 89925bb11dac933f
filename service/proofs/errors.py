"""What can be wrong with a note, a checkpoint or a proof.

ServiceError
├── UnreadableNote      not a signed note
├── UnverifiedNote      no signature of a key that is known
├── CheckpointDenied    a log that is not the one that was signed
├── ProofRejected       a proof that does not hold
└── NotWitnessed        no cosignature of a witness
"""

from __future__ import annotations

from service.errors import ServiceError


class UnreadableNote(ServiceError):
    """A text that is no signed note, checkpoint or proof by the letter of its format."""

    code = "unreadable_note"


class UnverifiedNote(ServiceError):
    """A note that no known key has signed, or a signature that does not hold."""

    code = "unverified_note"


class CheckpointDenied(ServiceError):
    """The log is not one that grew from what a checkpoint says of it."""

    code = "checkpoint_denied"


class ProofRejected(ServiceError):
    """A proof that does not lead to what it claims."""

    code = "proof_rejected"


class NotWitnessed(ServiceError):
    """A witness that could not be asked, or that did not cosign."""

    code = "not_witnessed"
