"""Which machine something was on: a name changes, by DHCP, by hand, with each new container."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eventstore.sqlite.filesystem import is_network, kind_of
from reconciler.host import processes


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as it was recorded; what nobody wrote down is None."""

    name: str | None
    boot_id: str | None = None
    machine_id: str | None = None

    def is_here(self, root: Path) -> bool:
        """Say whether it is this machine, whatever it is called by now.

        The same boot is the same machine. Another boot of one with the same machine id counts only
        where ``root`` lies on a disk of this machine, since clones share that id and network
        folders are seen by all of them.
        """
        if self.name in (None, processes.host()) or self.boot_id == processes.boot_id():
            return True
        known = self.machine_id is not None and self.machine_id == processes.machine_id()
        return known and not is_network(kind_of(root))
