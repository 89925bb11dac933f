"""The command line interface of wfctl.

It parses arguments and prints results. The rules of workflows are in other packages.
"""
