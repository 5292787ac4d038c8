"""Which formulation suits some data."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from .._parameters import parameters_of
from ..training.parameters import Choice
from ._command import FAILED, Command
from ._options import PARAMETERS, Data, Force, Json, Quiet, ZeroBased, class_weights, takes
from ._pictures import Plot, check_picture, new_figure, save_picture

if TYPE_CHECKING:
    from ..estimators import MulticlassComparison


# What a comparison chooses itself, or is not for.
WITHOUT = {"C", "multi_class", "epsilon", "intercept", "memory_limit", "max_time"}
WITHOUT |= parameters_of(Choice).keys() - {"Cs"}
COSTS = {
    "default": "0.01,0.03,0.1,0.3,1,3,10",
    "help": "Values of C to choose from, separated by commas; or how many, from 2^-6 to 2^3.",
}


@takes(PARAMETERS.keys() - WITHOUT, Cs=COSTS, loss={"default": "hinge"})
def compare(
    file: Data,
    plot: Plot = None,
    force: Force = False,
    repeats: Annotated[
        int, typer.Option(min=2, metavar="N", help="Number of random partitions.")
    ] = 10,
    *,
    zero_based: ZeroBased = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Compare three methods for data of three or more classes.

    The methods are one-versus-rest (with --loss), Crammer-Singer and Weston-Watkins. Repeatedly,
    the rows of each class are split at random into 60 % to train on, 20 % to choose C on and 20 %
    to test on, the same for all methods. Shows the mean and standard deviation of the accuracies
    on test rows, the C that were chosen, and p-values: how likely differences like these are if
    the methods do not differ (Wilcoxon's signed-rank test, two-sided).

    Ends with exit code 0 if every relative duality gap is proven to be at most --tol, and with 1
    if not. Ctrl-C ends with 130.

    For example:
      dualsweep compare news20.svm
      dualsweep compare mnist.npz --costs 0.1,1,10 --repeats 20 --plot mnist.png
    """
    from ..estimators import compare_multiclass

    with Command(json, quiet, reads=[file]) as command:
        command.will_write(plot, force, check_picture)
        X, y = command.load(file, zero_based=zero_based, n_jobs=given["n_jobs"])
        given["class_weight"] = class_weights(given["class_weight"], np.unique(y))
        verbose = 0 if quiet or json else 1
        started = perf_counter()
        with command.warnings():
            result = compare_multiclass(X, y, n_repeats=repeats, verbose=verbose, **given)
        command.facts["seconds"] = perf_counter() - started
        _report(command, result)
        if plot is not None:
            save_picture(_draw(result), plot, force)
            command.wrote("picture", plot)
        if (result.relative_gap > given["tol"]).any():
            command.code = FAILED


def _report(command: Command, result: MulticlassComparison) -> None:
    """Note what came out, and show a row for each method and each pair of them."""
    found = ("methods", "mean", "deviation", "least_p_value", "accuracy", "C", "relative_gap")
    command.facts |= {name: getattr(result, name) for name in found}
    command.facts["p_values"] = [
        {"methods": pair, "p_value": p_value} for pair, p_value in result.p_values.items()
    ]
    command.table(
        f"Test accuracy, {len(result.accuracy)} partitions",
        ["method", "mean", "deviation", "C"],
        [
            [
                method,
                f"{result.mean[m]:.2%}",
                f"{result.deviation[m]:.2%}",
                result.chosen(m).removeprefix("C = "),
            ]
            for m, method in enumerate(result.methods)
        ],
    )
    command.table(
        f"Is there a difference? With so few partitions, p is at least {result.least_p_value:.2g}",
        ["method", "and", "p-value"],
        [[one, other, f"{p_value:.2g}"] for (one, other), p_value in result.p_values.items()],
    )


def _draw(result: MulticlassComparison) -> Any:
    from ..plotting import ComparisonDisplay

    figure = new_figure(8.0, 4.5)
    ComparisonDisplay(result).plot(figure.subplots())
    return figure
