"""Write the workflow in formats that other tools read."""
