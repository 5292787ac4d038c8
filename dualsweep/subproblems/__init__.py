"""Block steps of the multi-class formulations: the exact ones, and others to compare them with.

Pure functions, scratch from the caller.
"""
