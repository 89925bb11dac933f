"""The watch of a monitor under its name of before: scripts on the disks of users start it so."""

from __future__ import annotations

import sys

from reconciler.dpdispatcher.watch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
