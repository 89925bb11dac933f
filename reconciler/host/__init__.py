"""Query a host: processes, locks, folders, tmux and the queue of a scheduler."""
