"""A reader that follows a log and says what it saw and when.

`python -m tests.eventstore.follower ADDRESS AFTER` prints a position, its event's id and the time
(seconds, of the clock that all processes share) a line; the first line says that it is there.
"""

import sys
import time
from contextlib import closing

from eventstore.store import subscribed
from tests.eventstore.support import opened


def main(address: str, after: int) -> None:
    """Follow for ever."""
    with closing(opened(address, read_only=True)) as store:
        print("0 here", time.time(), flush=True)
        for event in subscribed(store, after=after):
            print(event.position, event.event_id, time.time(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
