"""The exit codes of wfctl."""

from __future__ import annotations

DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, REFUSED, NEEDS_PERSON, FINDINGS = range(8)
