"""Benchmarks of the event log and of wfctl commands, compared with other programs.

`make bench` runs all contenders in turn on the same machine.
"""
