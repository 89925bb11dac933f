"""Who carries out reads: processes that are lent one read at a time.

A read that takes long keeps its reader, and another takes that one's place. Where all are busy for
longer than a moment, a read has a process of its own, as a write has.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from agents.warm import Warm

#: Reads that are carried out at once by readers.
READERS = 2
#: Seconds that a read waits for one of them.
_PATIENCE = 0.1
#: Seconds after which a read holds up no other.
SLOW = 2.0


class Readers:
    """The readers of a server, made before the first call."""

    def __init__(self, warm: Warm) -> None:
        self._warm = warm
        self._idle = [warm.reader() for _ in range(READERS)]
        self._free = anyio.Semaphore(READERS)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Loan | None]:
        """Lend a reader; None where all are busy. One that is not given back is replaced."""
        with anyio.move_on_after(_PATIENCE) as waited:
            await self._free.acquire()
        if waited.cancelled_caught:
            yield None
            return
        loan = Loan(self, self._idle.pop())
        try:
            yield loan
        finally:
            loan.give_up()

    def replace(self, reader: socket.socket) -> None:
        """Let go of a reader, which ends once it is done, and have another."""
        reader.close()
        self.take(self._warm.reader())

    def take(self, reader: socket.socket) -> None:
        """Have a reader to be lent."""
        self._idle.append(reader)
        self._free.release()


class Loan:
    """A reader that is lent, until it is given back or given up."""

    def __init__(self, readers: Readers, reader: socket.socket) -> None:
        self._readers = readers
        self.reader = reader
        self._is_over = False

    def give_back(self) -> None:
        """Let it carry out another read."""
        if not self._is_over:
            self._is_over = True
            self._readers.take(self.reader)

    def give_up(self) -> None:
        """Let another take its place; it ends after the read that it has."""
        if not self._is_over:
            self._is_over = True
            self._readers.replace(self.reader)
