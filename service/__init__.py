"""The use cases of wfctl: the only writer of the log and of the files generated from it."""
