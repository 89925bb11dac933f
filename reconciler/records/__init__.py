"""Read the records of an attempt on the disk: traces, launch data and final states of jobs."""
