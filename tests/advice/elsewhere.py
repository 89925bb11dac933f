"""Error codes that this table does not cover, each with a reason or the test that covers it."""

from __future__ import annotations

_BASE = "the base of a tree of errors, which has rows of its own"
_INNER = "no command yields it: what would is refused before, or is a fault of wfctl itself"

CODES: dict[str, str] = {
    "MACHINE_ERROR": _BASE,
    "database": _BASE,
    "event_schema": _BASE,
    "refused": _BASE,
    "event_id_reused": _INNER,
    "invalid_data": _INNER,
    "missing_upcaster": _INNER,
    "older_event_schema": _INNER,
    "store_closed": _INNER,
    "unusable_name": "a forged stage alone has such a name, and no next step leads round it",
    "extension_missing": "a program without a folder: tests/extensions/test_interface.py",
    "machine_refused": "a key that goes away between two questions; no test yet",
    "machine_unreachable": "an SSH server that goes away between two questions; no test yet",
    "already_monitored": "two launches at one moment: tests/reconciler/test_recovery.py",
    "locks_unreliable": "a file system that grants a lock twice: tests/eventstore/test_sqlite.py",
    "no_answer": "a key that is neither y nor n: tests/adversary/test_decisions_of_a_person.py",
    "scripts_changed": "a pinned script that was edited: tests/adversary/test_scripts.py",
    "scripts_unknown": "a pinned command with a variable: tests/adversary/test_scripts.py",
    "too_much_beside": "a stage's folder with 1,001 files: tests/keeping/test_beside.py",
    "verdict_changed": "a check that was loosened: tests/verification/test_loosened.py",
    "store_busy": "a writer that hangs: tests/eventstore/test_sqlite.py",
}
