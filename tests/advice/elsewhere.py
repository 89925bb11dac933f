"""Codes that no row of this table brings about, each with the reason, and the test that does."""

from __future__ import annotations

_BASE = "the base of a tree of errors, which has rows of its own"
_INNER = "no command yields it: what would is refused before, or is a fault of wfctl itself"
_TIME = "takes half a minute of waiting, and its advice is to look at what hangs; no test waits"

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
    "unusable_name": "a forged row alone has such a name; no test yet has a command meet one",
    "driver_missing": "the tests have PostgreSQL's driver; none runs without it",
    "machine_unreachable": "an SSH server that goes away between two questions; no test yet",
    "root_busy": _TIME,
    "runner_failed": _TIME,
    "inline_secret": "needs a prepared submission: tests/cluster/test_secrets.py; a plan with a "
    "secret is refused as `invalid_plan`",
    "UNSAFE_RESUME": "has many files to make first: tests/machines/test_dotagent.py",
    "already_autonomous": "needs a runner at work: tests/sessions/test_runner.py",
    "already_driven": "needs a loop at work, and advises to watch it: tests/crash/test_together.py",
    "already_monitored": "two launches at one moment: tests/reconciler/test_recovery.py",
    "damaged_attempt": "a file and its copy damaged at once; the verdict of it, UNREADABLE, is in "
    "tests/crash/test_damage.py",
    "damaged_event": "an archive with such a line: tests/cli/test_backup.py",
    "files_behind": "a disk that is full: tests/cli/test_disk.py",
    "launch_failed": "a monitor that dies at once: tests/reconciler/test_recovery.py",
    "locks_unreliable": "a file system that grants a lock twice: tests/eventstore/test_sqlite.py",
    "store_busy": "a writer that hangs: tests/eventstore/test_sqlite.py",
    "store_unreachable": "a server that is away: tests/cli/test_server_away.py",
    "store_unwritable": "a disk that is full: tests/cli/test_disk.py",
}
