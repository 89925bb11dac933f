"""The errors of notes, checkpoints and proofs.

ServiceError
├── UnreadableNote     the file is not a signed note
├── UnverifiedNote     the note has no signature of a known key
├── CheckpointDenied   the log does not continue the signed log
├── ProofRejected      the proof does not show what it claims
└── NotWitnessed       the note has no cosignature of a witness
"""

from __future__ import annotations

from service.errors import ServiceError

#: Exit code of a command that found problems; see docs/cli.md.
FINDINGS = 7


class UnreadableNote(ServiceError):
    """A text that is not a valid note, checkpoint or proof."""

    code = "unreadable_note"


class UnverifiedNote(ServiceError):
    """A note without a signature of a known key, or with an invalid signature."""

    code = "unverified_note"
    exit_code = FINDINGS


class CheckpointDenied(ServiceError):
    """The log contradicts a checkpoint or a pin, so it is not signed or accepted."""

    code = "checkpoint_denied"
    exit_code = FINDINGS


class ProofRejected(ServiceError):
    """A proof that does not prove its claim."""

    code = "proof_rejected"
    exit_code = FINDINGS


class NotWitnessed(ServiceError):
    """A witness that could not be reached or refused to sign."""

    code = "not_witnessed"
    exit_code = FINDINGS
