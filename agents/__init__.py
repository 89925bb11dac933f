"""The agent's face: the commands of wfctl as tools of the Model Context Protocol.

A tool call is a command line: the same rules, the same answers, the same log. Nothing in this room
knows stages or machines; what runs a command line is given to it.
"""
