"""The file system of a database determines its journal mode."""

from pathlib import Path

import pytest

from eventstore.sqlite.connection import build_journal_settings, choose_journal_settings
from eventstore.sqlite.file_system import (
    detect_file_system_type,
    has_working_file_locks,
    is_network_file_system,
)

MOUNTINFO = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
40 22 0:35 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
41 40 0:36 / /home/ada/fast\\040disk rw - xfs /dev/sdb1 rw
42 22 0:37 / /scratch rw - lustre mds:/scratch rw
43 22 0:38 / /scratch rw - fuse.sshfs host:/ rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """Return the list of mounts of a machine with a network disk."""
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTINFO)
    return path


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/ada", "nfs4"),
        ("/home/ada/fast disk/w", "xfs"),
        ("/home/ada/fast disks", "nfs4"),
        ("/scratch/w", "fuse.sshfs"),
    ],
)
def test_deepest_and_latest_mount_contains_a_path(mounts: Path, place: str, kind: str) -> None:
    """The file system of a path is found, even with stacked mounts and spaces in names."""
    assert detect_file_system_type(Path(place), mounts) == kind


def test_missing_list_of_mounts_is_an_unknown_file_system(tmp_path: Path) -> None:
    """On a system without /proc, the file system of a path is unknown."""
    assert detect_file_system_type(tmp_path, tmp_path / "none") == "unknown"


@pytest.mark.parametrize(
    ("kind", "mode", "synchronous"),
    [
        ("ext4", "wal", "FULL"),
        ("xfs", "wal", "FULL"),
        ("tmpfs", "wal", "FULL"),
        ("overlay", "wal", "FULL"),
        ("unknown", "wal", "FULL"),
        ("nfs", "truncate", "EXTRA"),
        ("nfs4", "truncate", "EXTRA"),
        ("lustre", "truncate", "EXTRA"),
        ("gpfs", "truncate", "EXTRA"),
        ("beegfs", "truncate", "EXTRA"),
        ("cifs", "truncate", "EXTRA"),
        ("fuse.glusterfs", "truncate", "EXTRA"),
    ],
)
def test_network_file_system_gets_no_write_ahead_log(
    tmp_path: Path, kind: str, mode: str, synchronous: str
) -> None:
    """On a network disk, wfctl uses the rollback journal and states the reason."""
    journal = choose_journal_settings(tmp_path / "events.db", kind=lambda _: kind)
    assert (journal.mode, journal.synchronous) == (mode, synchronous)
    assert kind in journal.reason
    assert is_network_file_system(kind) == (mode == "truncate")


def test_unsafe_journal_mode_is_refused() -> None:
    """A journal mode that could lose events raises an error that names the mode."""
    with pytest.raises(ValueError, match="'memory'"):
        build_journal_settings("memory", "as asked")


def test_locks_of_this_file_system_exclude_others(tmp_path: Path) -> None:
    """The probe finds that locks work on this disk, and releases its own lock."""
    assert has_working_file_locks(tmp_path / "lock")
    assert has_working_file_locks(tmp_path / "lock")
