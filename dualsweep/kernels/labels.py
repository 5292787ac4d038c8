"""Labels that are few numbers, told apart in one pass."""

from __future__ import annotations

from typing import Any

from .._jit import jit


@jit
def number_values(y: Any, first: Any, codes: Any) -> int:
    """Count the values of y, and number them in the order in which they come up.

    Fills in where each came up first, and the number of each row's value. Returns -1 if there are
    more than `first` has room for. NaN is another value each time.
    """
    n = k = 0
    for i in range(y.shape[0]):
        value = y[i]
        if n == 0 or value != y[first[k]]:
            k = 0
            while k < n and value != y[first[k]]:
                k += 1
            if k == n:
                if n == first.shape[0]:
                    return -1
                first[n] = i
                n += 1
        codes[i] = k
    return n
