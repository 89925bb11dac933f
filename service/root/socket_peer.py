"""Identify the user account at the other end of a Unix socket."""

from __future__ import annotations

import os
import socket
import struct


def peer_is_own(connection: socket.socket) -> bool:
    """Return whether the other end of a Unix socket belongs to this user or to root."""
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", found)
    return user in (0, os.geteuid())
