"""Count the file events of a driver, and kill the driver before a chosen event."""

from __future__ import annotations

from benchmarks.faults.game import Contender, Game, UnplayableError
from benchmarks.faults.preload import build_library

#: Duration of the middle step of the chain in seconds; the file events do not depend on it.
MIDDLE = 1.0


def prepare_kill(game: Game) -> None:
    """Let the driver of a game be killed before the file event `game.moment`."""
    events = game.place / "events"
    events.write_bytes(bytes(4))
    game.driver_variables |= {
        "LD_PRELOAD": build_library("file_events"),
        "FAULT_EVENTS": str(events),
        "FAULT_KILL_AT": str(game.moment),
    }
    game.driver_prefix = ["sh", "-c", 'FAULT_DRIVER=$$ exec "$@"', "driver"]


def wait_for_kill(game: Game) -> None:
    """Wait until the driver has ended, because it was killed or because its work is complete."""
    game.finish_driver()
    game.note_fault()


def choose_events(contender: Contender, work: str, number: int) -> list[int]:
    """Return at most `number` file events, evenly spaced over one run without a fault.

    Return all events if `number` is 0. Raises UnplayableError if the driver causes no event.
    """
    total = count_events(contender, work)
    if not total:
        raise UnplayableError("the driver changes no files")
    if not number or number >= total:
        return list(range(1, total + 1))
    return [round((index + 0.5) * total / number) for index in range(number)]


def count_events(contender: Contender, work: str) -> int:
    """Run a work without a fault, and return the number of file events of its driver."""
    game = Game(contender, work, MIDDLE)
    try:
        prepare_kill(game)
        game.write_files()
        game.start_driver()
        game.finish_driver()
        return int.from_bytes((game.place / "events").read_bytes(), "little")
    finally:
        game.close()
