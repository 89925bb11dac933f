"""Under which name and version the checkpoint of the history's tables is stored.

Whoever only asks whether there is one loads no tables for it.
"""

from __future__ import annotations

from lifecycle.fold.evolve import REDUCER

#: The reducer whose stored fold is the checkpoint.
NAME = "history"
#: Raised with every change of what the rows hold: rows of another format are made anew.
FORMAT = 3
#: Which rows the tables hold: the fold's own version and the rows' format.
VERSION = REDUCER * 1000 + FORMAT
