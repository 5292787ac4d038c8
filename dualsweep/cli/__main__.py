"""``python -m dualsweep.cli``."""

from . import app

app()
