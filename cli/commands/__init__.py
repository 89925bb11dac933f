"""The functions of the wfctl commands, in one module for each group of related commands."""
