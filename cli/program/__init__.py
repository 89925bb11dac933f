"""The program around the commands: their tree, help, manual page and completion."""
