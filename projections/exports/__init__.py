"""The log in other people's formats: each module turns a source into chunks of text."""
