"""The errors of notes, checkpoints and proofs.

ServiceError
├── UnreadableNote     not a signed note
├── UnverifiedNote     no signature of a known key
├── CheckpointDenied   a log that did not grow from the signed one
├── ProofRejected      a proof that does not lead to its claim
└── NotWitnessed       no cosignature of a witness
"""

from __future__ import annotations

from service.errors import ServiceError

#: Exit code of findings: see docs/cli.md.
FINDINGS = 7


class UnreadableNote(ServiceError):
    """A text that is no signed note, checkpoint or proof by the letter of its format."""

    code = "unreadable_note"


class UnverifiedNote(ServiceError):
    """A note that no known key has signed, or a signature that does not hold."""

    code = "unverified_note"
    exit_code = FINDINGS


class CheckpointDenied(ServiceError):
    """The log is not one that grew from what a checkpoint says of it."""

    code = "checkpoint_denied"
    exit_code = FINDINGS


class ProofRejected(ServiceError):
    """A proof that does not lead to what it claims."""

    code = "proof_rejected"
    exit_code = FINDINGS


class NotWitnessed(ServiceError):
    """A witness that could not be asked, or that did not cosign."""

    code = "not_witnessed"
    exit_code = FINDINGS
