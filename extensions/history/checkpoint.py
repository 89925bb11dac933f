"""The name and version under which the checkpoint of the history tables is stored.

This module has no imports of tables, so that checking for a checkpoint stays fast.
"""

from __future__ import annotations

from lifecycle.fold.evolve import REDUCER

#: The name of the stored fold that is the checkpoint.
NAME = "history"
#: Raise this number with every change of the rows; rows of another format are computed again.
FORMAT = 4
#: The version of the rows: the version of the fold and the format.
VERSION = REDUCER * 1000 + FORMAT
