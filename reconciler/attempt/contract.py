"""The launch contract: the names and exit codes on which scripts and their readers agree.

The script of a job, the wrapper that watches it, the processes that look at an attempt here or on
another machine, and the verdicts each know a part of it. What stands on the disks of users is read
for ever, so a name or a code is never changed; another one is added beside it.

    stage-1/
        submission.json      what a person or an agent prepared, if anybody did
        dpdisp-run.sh        the wrapper
        .monitor.lock        held while a monitor of the stage lives
        DPDISP_EXIT_CODE     the monitor's exit code alone
        DPDISP_DONE          the same with the tag of its attempt and the time
        .attempts/att-0001-0a1b2c3d/
            submission.json  what is really submitted
            exit-code        the monitor's exit code, with the tag and the time
            monitor.json     which process is the monitor
            environment      of its jobs, for its owner alone
            stopped          no job that comes late starts its command
            job-HASH.SUFFIX  what a job says of itself: `OfJob`

    .wfctl/starts/stage-1.att-0001-0a1b2c3d/
        job-HASH.started     the claim of a start once more, for `rm -rf stage-1`
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

#: In the folder of a stage.
PREPARED, WRAPPER = "submission.json", "dpdisp-run.sh"
MONITOR_LOCK = ".monitor.lock"
EXIT_CODE, DONE = "DPDISP_EXIT_CODE", "DPDISP_DONE"
ATTEMPTS = ".attempts"

#: In the folder of an attempt; `AttemptPaths` names what else lies there.
LAUNCH_RECORD = "launch.json"
#: The environment of its jobs, for its owner alone: NAME=VALUE, each ended by
#: a NUL; of what is named as a secret the NAME alone.
ENVIRONMENT_RECORD = "environment"
#: Where outputs of earlier attempts are kept.
KEPT = "kept"

#: In the folder of the log: a claim that the attempt's own folder does not have is of one that was
#: removed while its job ran, and nothing of such an attempt is submitted again.
STARTS = "starts"
#: What git is to leave alone in a folder, this file too.
IGNORE, IGNORE_ALL = ".gitignore", b"*\n"

#: A job is named by the hash that DPDispatcher gives it.
JOB = "job-"


class OfJob(StrEnum):
    """What follows the name of a job in the names of the files in which it tells of itself."""

    #: A folder: the start was claimed, once for ever. Its ``record`` says where and by which shell.
    STARTED = ".started"
    #: Held by the command and by all that it starts.
    LOCK = ".lock"
    #: The file system knows no locks, or one was not to be had in time.
    UNLOCKED = ".unlocked"
    #: A task is at work, or was killed while it was; a number follows.
    TASK = ".task"
    #: The exit code of the first command that failed.
    CODE = ".code"
    #: A command was ended by SIGKILL.
    KILLED = ".killed"
    #: The job's own exit code, with the tag and the time.
    EXIT = ".exit"
    #: All its shells are gone and its command is still at work, as the monitor saw.
    ALONE = ".alone"
    #: Processes that a command which ended well has left at work; a number follows.
    AWAITED = ".awaited"
    #: Which software the command found.
    ENVIRONMENT = ".environment"


#: Exit codes above this one tell the signal that ended a shell, not what its command said.
SIGNALLED = 128
#: That of SIGKILL, which no program sends itself: it ended the command, or a shell.
KILLED = SIGNALLED + 9
#: So a job that has no other code has not told how its command ended.
UNTOLD = (None, KILLED)
#: Those of the signals by which a program ends itself: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
FAULTS = frozenset(SIGNALLED + signal for signal in (4, 6, 7, 8, 11))


class ScriptEnd(IntEnum):
    """Exit codes by which our own scripts say how they ended, after `sysexits.h` where one fits."""

    #: The attempt's files were removed while its job ran (EX_NOINPUT).
    REMOVED = 66
    #: The submission is not what was recorded (EX_DATAERR).
    CHANGED = 65
    #: A machine or scheduler gave no answer (EX_UNAVAILABLE).
    SILENT = 69
    #: The files of the attempt cannot be written (EX_IOERR).
    UNWRITABLE = 74
    #: Another one is at work (EX_TEMPFAIL).
    TAKEN = 75


class Watched(IntEnum):
    """What watching an attempt came to; exit codes of the watching process."""

    OVER = 0
    NOTHING = 10
    COLLECTED = 11
    SILENT = ScriptEnd.SILENT
