"""Optional parts of wfctl, one package for each extension.

The core works without these packages. See `wfctl_eventstore.extension` for the interface.
"""
