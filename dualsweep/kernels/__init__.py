"""Compiled loops over rows: they never print, warn or allocate."""
