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

from .problem import AnyProblem, Result
from .solve import HandOver, solve

__all__ = ["follow"]

# Sweeps are not tried again if the solution before took more than this part of those that Newton
# steps are thought to be worth: they become slower with C, and Newton from a seed needs about half
# its steps. mnist, one class, squared hinge: thought to be worth 103 sweeps, but 62 took as long as
# 12 steps, and seven do.
SWEEPS_AGAIN = 0.5


def follow(problem: AnyProblem, before: Result | None, **options: Any) -> Result:
    """Solve `problem` from a solution of the same problem for other costs.

    Parameters
    ----------
    problem : Problem or MulticlassProblem
        Rows, labels, costs and formulation.
    before : Result or None
        The solution for the other costs; None for a cold start.
    **options : dict
        Those of `solve`, but for where to start.

    Returns
    -------
    Result
        As from `solve`.
    """
    if before is None:
        return solve(problem, **options)
    alpha, known = problem.rescaled(before)
    if options.get("solver", "auto") == "auto" and _newton_pays(problem, before):
        options["solver"] = "newton"
    return solve(problem, alpha=alpha, known=known, **options)


def _newton_pays(problem: AnyProblem, before: Result) -> bool:
    """Tell whether to start with Newton steps, without sweeps that look promising from a seed.

    Sweeps look better than they are there: the gap of a seed falls fast at first. On mnist, hinge
    loss, C from 0.01 to 1000, this saves two fifths of the time to a relative gap of 1e-5.
    """
    worth = HandOver(problem, tol=1.0, solver="auto").sweeps_worth
    return before.n_newton > 0 or SWEEPS_AGAIN * worth < before.n_iter
