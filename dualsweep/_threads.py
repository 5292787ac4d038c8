"""How many threads `n_jobs` means."""

from __future__ import annotations

__all__ = ["count_threads"]


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads to use, by joblib's rules; see `LinearSVC`."""
    if n_jobs == 1:
        return 1
    from joblib import effective_n_jobs  # takes a while

    return int(effective_n_jobs(n_jobs))
