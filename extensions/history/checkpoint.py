"""The name and version under which the state of the history tables is stored.

This module imports no tables, so that a check for this checkpoint stays fast.
"""

from __future__ import annotations

from lifecycle.fold.evolve import REDUCER

#: Name of the stored fold (saved intermediate state) that serves as the checkpoint.
NAME = "history"
#: Increase this number when the rows change. Rows with another number are then computed again.
FORMAT = 4
#: Version of the table rows: the version of the fold combined with the format of the rows.
VERSION = REDUCER * 1000 + FORMAT
