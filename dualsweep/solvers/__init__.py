"""How problems are solved: sweeps, momentum, when Newton steps come, and when to stop."""

from . import free  # noqa: F401  (registers how such problems are solved)
