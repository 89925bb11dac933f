"""Answer questions about the history: who changed what, why and when."""
