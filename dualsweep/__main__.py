"""The command ``dualsweep``, and ``python -m dualsweep``."""

import atexit
import gc

from ._interrupt import leave_on_interrupt


def main() -> None:
    """Run the command line.

    Without looking for garbage among what imports leave behind: that takes a third of the time to
    start and to end.
    """
    leave_on_interrupt()
    gc.disable()
    atexit.register(gc.freeze)
    from .cli import app

    gc.freeze()
    gc.enable()
    app()


if __name__ == "__main__":
    main()
