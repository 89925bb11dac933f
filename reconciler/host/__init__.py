"""What a host tells: processes, locks, folders, tmux, the queue of a scheduler."""
