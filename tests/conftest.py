import os
import signal

import pytest

collect_ignore_glob = ["fuzz*.py", "mutation/*"]  # no tests; they need atheris and cosmic-ray

# Which test compiles first is up to the cache: what it would be told must not be in its output.
os.environ["DUALSWEEP_QUIET"] = "1"

# A shell's background job ignores Ctrl-C, and so would everything that the tests send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Begin with the longest test, so that it is not the last one on one core."""
    items.sort(key=lambda item: item.name != "test_a_wheel")


@pytest.fixture
def tuned(monkeypatch):
    """Set constants of `dualsweep._tuning` until the test is over: ``tuned(PART_ROWS=1)``."""

    def tune(**constants):
        for name, value in constants.items():
            monkeypatch.setattr(f"dualsweep._tuning.{name}", value)

    return tune
