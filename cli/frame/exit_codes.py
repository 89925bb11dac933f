"""The exit codes of the contract, docs/cli.md."""

DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, REFUSED, NEEDS_PERSON, FINDINGS = range(8)
