"""What a loop that is killed loses or does twice, beside others."""
