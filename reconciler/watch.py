"""The monitor's watch under its former module name, which existing scripts of users start."""

from __future__ import annotations

import sys

from reconciler.dpdispatcher.watch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
