"""A writer to be killed: it appends without rest and says what was acknowledged.

`python -m tests.eventstore.scribe DATABASE JOURNAL` prints a command id and its last version a
line, after the append returned and before the next begins.
"""

import os
import sys
from contextlib import closing
from itertools import count

from eventstore.store import Claim, Expected
from tests.eventstore.support import note, opened


def main(address: str, journal: str) -> None:
    """Append batches of one to five events for ever."""
    with closing(opened(address, journal)) as store:
        for number in count():
            name = f"{os.getpid()}-{number}"
            batch = [note("x" * 300, event_id=f"{name}-{n}") for n in range(number % 5 + 1)]
            done = store.append("w", batch, expected=Expected.ANY, claim=Claim(name, name))
            os.write(1, f"{name} {done.events[-1].version}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
