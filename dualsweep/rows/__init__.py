"""Rows of X: layouts, what kernels do with a row, and passes over all of them."""
