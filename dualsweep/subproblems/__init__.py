"""Exact block steps of the multi-class formulations: pure functions, scratch from the caller."""
