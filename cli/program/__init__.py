"""The command tree of wfctl, with its help, manual page and shell completion."""
