"""A writer that appends without pause and prints acknowledgements, until a test kills it.

`python -m tests.eventstore.scribe DATABASE JOURNAL` prints a command id and its last version on
each line, after each append returned and before the next append starts.
"""

import os
import sys
from contextlib import closing
from itertools import count

from eventstore.store import Claim, Expected
from tests.eventstore.support import note, opened


def write(address: str, journal: str, name: str, output: int) -> None:
    """Append batches of one to five events for ever, and write each acknowledgement."""
    with closing(opened(address, journal)) as store:
        for number in count():
            command = f"{name}-{number}"
            ids = [command, *(f"{command}-{n}" for n in range(number % 5))]
            batch = [note("x" * 300, event_id=event_id) for event_id in ids]
            done = store.append("w", batch, expected=Expected.ANY, claim=Claim(command, command))
            os.write(output, f"{command} {done.events[-1].version}\n".encode())


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], str(os.getpid()), 1)
