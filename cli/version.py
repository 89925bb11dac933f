"""The version of wfctl, in a module that loads nothing else."""

VERSION = "0.1.0"


def print_version() -> None:
    """Print the version of wfctl."""
    print(f"wfctl {VERSION}")
