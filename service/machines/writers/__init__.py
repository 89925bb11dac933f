"""What the protocols' own writers wrote into the files, as the events that it amounts to."""
