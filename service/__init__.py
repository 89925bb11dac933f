"""The operations of wfctl. Only they write the log and the files generated from it."""
