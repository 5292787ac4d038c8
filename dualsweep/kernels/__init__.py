"""Compiled loops over rows, and the steps inside them."""
