"""Compare the event log with evidence from the disk, the processes and the scheduler.

The comparison gives a verdict on each attempt (one run of a stage's job) and commands that correct
the log.
"""
