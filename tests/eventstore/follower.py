"""Follow a log, and print each event with the time at which it was seen.

`python -m tests.eventstore.follower ADDRESS AFTER` prints a position, an event id and the time in
seconds on each line. The first line reports that the follower has started.
"""

import sys
import time
from contextlib import closing

from eventstore.store import subscribe
from tests.eventstore.support import opened


def main(address: str, after: int) -> None:
    """Follow the log for ever."""
    with closing(opened(address, read_only=True)) as store:
        print("0 here", time.time(), flush=True)
        for event in subscribe(store, after=after):
            print(event.position, event.event_id, time.time(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
