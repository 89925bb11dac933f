"""The plugin put into the settings of an agent's client, and taken out again.

What is the user's own stays as it is, to the byte: only pieces of text are put in and cut out.
"""
