"""One problem for one C after the other, each solved from the solution before.

The seed is the solution before times the number that makes the dual objective largest, within the
new box: w and the slacks scale with it, so nothing has to be recomputed to know where the next
sweeps start. Where most rows are at their bound that number is the ratio of the two C, and they
stay there; where the rows can be separated it is 1. Sweeps to a relative gap of 1e-3 for
C = 2^-6, 2^-5, ..., 2^3, in total:

    ====================  =====  ===========  ============  ===========
    data                   cold  alpha as is  times C'/C    this module
    ====================  =====  ===========  ============  ===========
    a9a, hinge              268          262            47           47
    a9a, squared hinge      113          101            25           25
    imdb, hinge             100           69            93           67
    imdb, squared hinge      63           42            56           34
    20news, Crammer-Singer  212          155           177          150
    20news, Weston-Watkins  250          175           224          167
    ====================  =====  ===========  ============  ===========

Where features are so correlated that sweeps are slow (digits, Crammer-Singer: 2060 against 1957)
no seed helps, nor does extrapolating from two solutions.

Rows stay out once a certificate proves them settled, for the C at hand: the next C moves the
optimum. The certificate of the seed would do for a proof before the first sweep, but when C doubles
its gap is some tenths of the objective, and a sphere that large settles no row (none on a9a, imdb
and 20news at any C above). The sphere of radius ``(C'/C - 1) |w| / 2`` that exact solutions imply
settles none either, but for a few rows at the smallest C. So there is no rule for it here.
"""

from __future__ import annotations

from typing import Any

from .._typing import Array
from ..problems.result import Result
from .solve import Start


def start_from(problem: Any, seen: Array, result: Result) -> Start:
    """Return where to start from a solution of the same problem for other costs.

    Parameters
    ----------
    problem : BinaryProblem or MulticlassProblem
        What is to be solved.
    seen : array
        The rows that had costs then.
    result : Result
        The solution.

    Returns
    -------
    Start
        The best multiple of the solution, and what is known of it.
    """
    alpha, known = problem.rescaled(result, seen)
    return Start(alpha, known, result)
