"""How problems are solved: sweeps, momentum, when Newton steps come, and when to stop."""

from . import free, sliced  # noqa: F401  (register how problems are solved)
