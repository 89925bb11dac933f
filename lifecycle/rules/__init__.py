"""The rules: (state, command) → events, or a refusal."""
