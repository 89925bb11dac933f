"""What phase machines look like: the files of their protocols, and pages about them."""
