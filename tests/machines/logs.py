"""The places where the log of a machine may be stored."""

import pytest

from tests.rounds import first

#: Run each test with the log in a file, and with `make crash` also on a server.
on_every_log = pytest.mark.parametrize("place", first(["file", "server"]), indirect=True)
