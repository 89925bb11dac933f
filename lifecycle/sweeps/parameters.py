"""The parameters of a stage that wfctl itself uses, with a description of each."""

from __future__ import annotations

from lifecycle.words.mandates import TIME_LIMIT
from lifecycle.words.metrics import METRICS
from lifecycle.words.plan_parameters import USE
from lifecycle.words.resources import RESOURCES

#: Description of each parameter that wfctl uses. The command of a stage gets all other parameters.
WORDS_OF_PARAMETER: dict[str, str] = {
    "command": "The command line of the stage. bash runs the command line in a temporary copy of "
    "the stage's folder, or for a sweep in the folder of each task. A person or an agent does a "
    "stage without a command.",
    "verify": "A command line that checks the results. wfctl runs it in the workflow's folder "
    "after the command. Exit code 0 means that the success criteria are met.",
    "forward_files": "Additional files that the command needs, relative to the stage's folder "
    "(default: all files that you put into this folder).",
    "backward_files": "Files to copy back from the temporary folder in which the command ran "
    "(default: the outputs).",
    "carry": "Patterns of checkpoint files, relative to the stage's folder, for example "
    "*.restart. The next attempt gets these files and continues from them.",
    "resource_overrides": "Resources of the job, for example cpu_per_node, group_size and "
    "custom_flags. They override resource_defaults of the backend profile.",
    "expected_seconds": "The expected run time in seconds. On this computer, wfctl waits in the "
    "foreground if the time is less than 120 seconds.",
    TIME_LIMIT: "The maximum run time in seconds of the command, or of each task of a sweep. "
    "After this time, wfctl stops the command with exit code 124.",
    RESOURCES: "Memory (memory_gb, per node), time_limit, nodes and cores (per node) of the job. "
    "{start = 4, times = 2, at_most = 64} requests more after an attempt that needed more, up to "
    "at_most. The entries override those of the backend profile.",
    "environment": "The software environment of the command, with the fields modules, conda, venv "
    "and container. Each field overrides the same field of the backend profile.",
    "bring_back_limit": "The maximum total size of additional files that wfctl copies next to the "
    'outputs, for example "2 GB". Larger amounts stay in the folder of the attempt.',
    "verify_parameters": "Parameters that only verify and task_verify get, as variables "
    "WFCTL_PARAM_<name>. If you change a value, wfctl checks the existing results again, and "
    "computes only the tasks that then fail.",
    "map": "The points of a sweep: sets of parameter values, given as points, grid, zip, file or "
    "like. The command runs once for each point. Without a map, the command runs once. With first "
    "= 1 in the map, the other tasks start when one task has succeeded.",
    "task_outputs": "For sweeps: the files that each task must write in its folder.",
    "task_verify": "For sweeps: a command line that checks the results of one task in its folder. "
    "Exit code 0 means that the task is done. If you change task_verify, wfctl checks the "
    "existing results again.",
    "task_retries": "For sweeps: how often wfctl runs a failed task again within one attempt.",
    "tolerate": "For sweeps: the share of tasks that may fail, for example 0.02 for 2 % (default "
    "0).",
    "at_once": "For sweeps: the maximum number of tasks that run at the same time (default 8).",
    METRICS: 'Numbers in output files, by name. {"tc": "fit.json#/tc"} means the value tc in the '
    "file fit.json. Instead of this place, you can write an object with the place as `at`, and "
    "error, unit, better (lower or higher) and reference (value, error, source). For a sweep, "
    "each number is a column of tasks.csv.",
    USE: "The parameters of the plan that this stage uses, as a list of names. Its commands get "
    "each value as WFCTL_PARAM_<name>. If a value changes, only the stages that use it are "
    "computed again.",
}
PARAMETERS_OF_WFCTL = frozenset(WORDS_OF_PARAMETER)
