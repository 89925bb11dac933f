"""Write the table of all sequences, survey.csv, of what the plan survey.toml has computed.

Usage: survey.py TABLE OUT
"""

import csv
import sys
from pathlib import Path

if __name__ == "__main__":
    with Path(sys.argv[1]).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
    lines = [f"{r['sequence']},{float(r['rg']):.5f},{float(r['rg_error']):.5f}" for r in rows]
    Path(sys.argv[2]).write_text("\n".join(["sequence,rg,error", *lines]) + "\n")
    print(f"{len(lines)} sequences")
