"""A short history of a log, to be recorded: created, then opened, appended to and closed
repeatedly. `python -m tests.eventstore.sessions FOLDER JOURNAL SYNCHRONOUS` writes each
acknowledged version to FOLDER/screen as soon as the append returns. An empty SYNCHRONOUS keeps
the default of the store.
"""

import os
import sys
from contextlib import closing
from pathlib import Path

from eventstore.sqlite import connection
from eventstore.store import Claim, Expected
from migrations.upgrade import upgrade_database
from tests.eventstore.support import note, sqlite_store


def main(folder: Path, journal: str, synchronous: str) -> None:
    """Run six sessions of six appends. Some copy the write-ahead log into the database."""
    connection._LONG_LOG = 60_000
    screen = os.open(folder / "screen", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    upgrade_database(folder / "events.db")
    for session in range(6):
        with closing(sqlite_store(folder / "events.db", journal)) as store:
            if synchronous:
                assert store._writer is not None
                store._writer.connection.execute(f"PRAGMA synchronous={synchronous}")
            for number in range(6):
                name = f"{session}-{number}"
                ids = [name, *(f"{name}-{n}" for n in range(number % 3))]
                batch = [note("x" * 700, event_id=event_id) for event_id in ids]
                done = store.append("w", batch, expected=Expected.ANY, claim=Claim(name, name))
                os.write(screen, f"{done.events[-1].version}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
