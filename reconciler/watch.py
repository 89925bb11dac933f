"""Start the process that watches jobs, under the former name of its module.

Existing scripts of users still use this name.
"""

from __future__ import annotations

import sys

from reconciler.dpdispatcher.watch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
