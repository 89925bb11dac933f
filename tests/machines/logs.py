"""Where the log of a machine may be kept."""

import pytest

#: Every test of a file on the log in a file, and again on a server.
on_every_log = pytest.mark.parametrize("place", ["file", "server"], indirect=True)
