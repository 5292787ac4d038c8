"""Rows in blocks on disk, read again and again where they do not fit into memory."""
