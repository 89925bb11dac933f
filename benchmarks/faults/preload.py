"""Compile the C libraries that change what the processes of a game see."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path


def find_obstacle() -> str:
    """Return why this machine cannot compile the libraries, or an empty string."""
    return "" if shutil.which("gcc") else "gcc is missing"


@functools.cache
def build_library(name: str) -> str:
    """Compile the source file `name`.c of this folder, and return the path of the library."""
    library = Path(tempfile.mkdtemp(prefix="fault-library-")) / f"{name}.so"
    source = Path(__file__).parent / f"{name}.c"
    options = ["-Wall", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(["gcc", *options], check=True)
    return str(library)
