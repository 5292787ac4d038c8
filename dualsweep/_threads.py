"""How many threads `n_jobs` means."""

from __future__ import annotations

__all__ = ["count_threads"]


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads to use; None and negative numbers mean what joblib says."""
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    from joblib import effective_n_jobs  # takes a tenth of a second

    return int(effective_n_jobs(n_jobs))
