"""From findings to commands, and the acts on jobs: launch, wait, stop."""
