"""The fold: (state, event) → state."""
