"""A pytest plugin that imports the mutated rules before any test.

Otherwise, the recorded coverage would attribute their import to the first test.
"""

from lifecycle.rules import amendments, decide, loops_ahead, rounds  # noqa: F401
