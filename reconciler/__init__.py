"""What is really so: evidence from the disk, the processes and the scheduler, and what to do."""
