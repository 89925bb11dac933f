"""The two places where the log of a machine may be stored: a file or a server."""

import pytest

from tests.rounds import first

#: Runs each test with the log in a file. `make crash` also runs it with the log on a server.
on_every_log = pytest.mark.parametrize("place", first(["file", "server"]), indirect=True)
