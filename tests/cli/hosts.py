"""Simulate hosts on this machine with network namespaces, and a server that they can reach."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.cli.support import HERE, Answer
from tests.need import need, need_programs, need_root

# Program that sets the hostname and then runs a command. A hostname namespace belongs to a process,
# so each command starts in a new namespace.
_NAMED = (
    "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
)


def ip(*arguments: str) -> None:
    """Run `ip` with the given arguments to configure a simulated network."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Host(NamedTuple):
    """A simulated host, with the server's address as seen from this host."""

    name: str
    network: str
    server: str

    def wfctl(self, *arguments: str, **environ: str) -> Answer:
        """Run wfctl in a separate process on this simulated host."""
        command = [sys.executable, "-m", "cli.main", *arguments]
        done = subprocess.run(
            [*self.within(), *command],
            env={**os.environ, "PYTHONPATH": str(HERE), **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def within(self) -> list[str]:
        """Return the command prefix that runs a command on this host."""
        named = [sys.executable, "-c", _NAMED, self.name]
        return ["ip", "netns", "exec", self.network, "unshare", "--uts", *named]


class Networks:
    """A context manager for the network of a server and one network for each host."""

    def __init__(self, *names: str) -> None:
        own = f"wfctl{os.getpid()}"
        self.server = f"{own}-server"
        self.hosts = [
            Host(name, f"{own}-{name}", f"10.77.{number}.1") for number, name in enumerate(names)
        ]

    def __enter__(self) -> Self:
        need_programs("ip", "unshare")
        need_root()
        try:
            ip("netns", "add", self.server)
        except subprocess.CalledProcessError as error:
            need(False, f"no network namespaces here: {error.stderr.decode().strip()}")
        try:
            for host in self.hosts:
                self._join(host)
        except BaseException:
            self._remove()
            raise
        return self

    def _join(self, host: Host) -> None:
        """Create the network of a host, with one connection to the network of the server."""
        ip("netns", "add", host.network)
        there = ("name", "eth0", "netns", host.network)
        ip("-n", self.server, "link", "add", host.name, "type", "veth", "peer", *there)
        theirs = host.server.removesuffix("1") + "2"
        for network, end, address in (
            (self.server, host.name, host.server),
            (host.network, "eth0", theirs),
        ):
            ip("-n", network, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", network, "link", "set", end, "up")

    def within(self) -> Sequence[str]:
        """Return the command prefix that runs a command in the network of the server."""
        return ("ip", "netns", "exec", self.server)

    def listen(self) -> str:
        """Return the addresses at which the server must listen."""
        return ",".join(host.server for host in self.hosts)

    def _remove(self) -> None:
        for network in (self.server, *(host.network for host in self.hosts)):
            if Path("/run/netns", network).exists():
                ip("netns", "del", network)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()
