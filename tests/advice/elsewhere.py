"""Codes that no row of this table brings about, each with the reason."""

from __future__ import annotations

_BASE = "the base of a tree of errors, which has rows of its own"
_INNER = "no command yields it: what would is refused before, or is a fault of wfctl itself"
_KILLS = "who dies at that moment is struck in tests/crash and tests/sessions/test_runner.py"

CODES: dict[str, str] = {
    "MACHINE_ERROR": _BASE,
    "database": _BASE,
    "event_schema": _BASE,
    "event_id_reused": _INNER,
    "inline_secret": "a plan with a secret is refused as `invalid_plan`; of a submission that "
    "somebody prepared: tests/reconciler/test_submission.py",
    "invalid_data": _INNER,
    "missing_upcaster": _INNER,
    "older_event_schema": _INNER,
    "store_closed": _INNER,
    "unusable_name": "a log with such a row: tests/adversary/test_naming.py",
    "UNSAFE_RESUME": "tests/machines/test_dotagent.py, which has the files that it takes",
    "already_autonomous": _KILLS,
    "already_driven": "a loop that is held at work: tests/sessions/test_loop.py",
    "already_monitored": _KILLS,
    "damaged_attempt": "the damages of tests/crash/test_damage.py",
    "damaged_event": "an archive with such a line: tests/cli/test_backup.py",
    "driver_missing": "the tests have PostgreSQL's driver: tests/eventstore/test_postgres.py",
    "files_behind": "a disk that is full: tests/cli/test_disk.py",
    "launch_failed": _KILLS,
    "locks_unreliable": "a file system that grants a lock twice: tests/eventstore",
    "machine_unreachable": "an SSH server: tests/cluster",
    "no_diagnostic_run": "a sweep that failed: tests/sweeps",
    "program_missing": "a PATH without DPDispatcher: tests/cli/test_place.py",
    "refused": _BASE,
    "root_busy": "half a minute of waiting: tests/service/test_together.py",
    "runner_failed": _KILLS,
    "store_busy": "a writer that hangs: tests/eventstore",
    "store_unreachable": "a server that is away: tests/cli/test_server_away.py",
    "store_unwritable": "a disk that is full: tests/cli/test_disk.py",
}
