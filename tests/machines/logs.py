"""Where the log of a machine may be kept."""

import pytest

from tests.rounds import first

#: Every test of a file on the log in a file, and by `make crash` on a server.
on_every_log = pytest.mark.parametrize("place", first(["file", "server"]), indirect=True)
