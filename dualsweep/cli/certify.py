"""Certificates of models that are already there."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..io import load_model
from ..training.formulations import FORMULATIONS
from ..training.parameters import INTERCEPTS
from ._command import FAILED, Command, in_bytes
from ._options import (
    Data,
    Force,
    Json,
    MemoryLimit,
    NJobs,
    Quiet,
    ZeroBased,
    any_loss,
    check_parameters,
    choice,
    positive,
)

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVR

SAME = 1e-9  # relative difference of objectives that rounding explains


def certify(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model of dualsweep or LIBLINEAR.")
    ],
    file: Data,
    cost: Annotated[
        float | None,
        typer.Option(
            "--cost",
            "-C",
            callback=positive,
            help="C of the problem to judge the model by.",
            show_default="the model's; LIBLINEAR does not record it",
        ),
    ] = None,
    loss: Annotated[str | None, any_loss(default="the model's")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="EPSILON",
            help="Epsilon of regression.",
            show_default="the model's; LIBLINEAR does not record it",
        ),
    ] = None,
    multi_class: Annotated[
        str | None,
        choice("FORMULATION", FORMULATIONS, "For more than two classes", default="the model's"),
    ] = None,
    intercept: Annotated[
        str | None,
        choice(
            "INTERCEPT",
            INTERCEPTS,
            "Whether the intercept counts in the penalty",
            default="the model's",
        ),
    ] = None,
    tol: Annotated[
        float, typer.Option(min=0.0, metavar="GAP", help="Relative gap to prove.")
    ] = 1e-3,
    max_iter: Annotated[
        int, typer.Option(min=0, metavar="N", help="Most epochs to look for a bound.")
    ] = 1000,
    max_time: Annotated[
        float | None,
        typer.Option(
            callback=positive, metavar="SECONDS", help="Most seconds to look for a bound."
        ),
    ] = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = -1,
    zero_based: ZeroBased = None,
    proof: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a proof, which others can check against DATA by dualsweep-check.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prove how good a model is on data: one of dualsweep or LIBLINEAR.

    Computes the model's objective on DATA, and a lower bound on the objective of every model. The
    bound comes from the model's own dual variables if it has them, they belong to these rows and
    prove --tol; else from solving the problem again. It holds however it was found: no model of the
    same C and loss is better than this one by more than the relative gap between the two.

    --proof writes weights, dual variables, costs and a digest of the data to a file, with which
    `dualsweep-check FILE DATA` repeats the computation in exact arithmetic, on svmlight text.

    Ends with exit code 0 if the relative gap is at most --tol, and with 1 if not.

    For example:
      dualsweep certify a1a.model.npz a1a.svm
      dualsweep certify heart_scale.model heart_scale -C 1 --tol 1e-2
    """
    from .. import estimators

    with Command(json, quiet, reads=[model_file, file]) as command:
        if proof is not None:
            command.spare_inputs(proof)
        model = load_model(model_file)
        recorded = getattr(model, "primal_objective_", None)
        regression = not hasattr(model, "classes_")
        if cost is None and recorded is None:
            raise typer.BadParameter(f"{model_file} does not record C. Pass it with --cost.")
        if regression and epsilon is None and recorded is None:
            raise typer.BadParameter(
                f"{model_file} does not record epsilon. Pass it with --epsilon."
            )
        own = {"epsilon": epsilon} if regression else {"multi_class": multi_class}
        if (multi_class if regression else epsilon) is not None:
            one, other = "--multi-class", "classification"
            if not regression:
                one, other = "--epsilon", "regression"
            raise typer.BadParameter(f"{one} applies to {other}, but {model_file} is not for that.")
        given = {"C": cost, "loss": loss, "intercept": intercept, **own}
        model.set_params(**{name: value for name, value in given.items() if value is not None})
        check_parameters(model)
        width = {"n_features": model.n_features_in_}
        X, y = command.load_or_open(
            file, memory_limit, zero_based=zero_based, n_jobs=n_jobs, **width
        )
        started = perf_counter()
        if proof is not None:
            command.writes(proof)
        found = estimators.certify(
            model,
            X,
            y,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            memory_limit=in_bytes(memory_limit),
            n_jobs=n_jobs,
            proof=proof,
            force=force,
        )
        command.show(
            "Certificate",
            {
                "problem": f"C = {model.C:g}, {_problem(model)}{_free(model)}",
                "primal_objective": found.primal,
                "dual_objective": found.dual,
                "relative_gap": found.relative_gap,
                "tol": tol,
                "proven": found.relative_gap <= tol,
                "bound_from": (
                    "the model's dual variables" if found.n_iter == 0 else "solving the problem"
                ),
                "epochs": found.n_iter,
                "seconds": perf_counter() - started,
            },
        )
        command.tell(
            f"No model has an objective below {found.dual:.6g}, so none is more than "
            f"{100 * min(found.relative_gap, 1.0):.3g} % better than this one."
        )
        if proof is not None:
            command.facts["proof"] = str(proof)
            command.tell(f"The proof is in {proof}. To check it: dualsweep-check {proof} {file}")
        if recorded is not None:
            command.facts["recorded_primal_objective"] = recorded
            if abs(recorded - found.primal) > SAME * found.primal and given == dict.fromkeys(given):
                command.say(
                    f"{model_file} records an objective of {recorded:.6g}: it was trained on other "
                    "data, or has been changed since."
                )
        if found.relative_gap > tol:
            command.code = FAILED


def _free(model: LinearSVC | LinearSVR) -> str:
    return ", free intercept" if model.fit_intercept and model.intercept == "free" else ""


def _problem(model: LinearSVC | LinearSVR) -> str:
    if not hasattr(model, "classes_"):
        return f"{model.loss} loss, epsilon = {model.epsilon:g}"
    if len(model.classes_) == 2 and model.multi_class == "ovr":
        return f"{model.loss} loss"
    if model.multi_class == "ovr":
        return f"{model.loss} loss, one versus the rest"
    return model.multi_class.replace("_", "-")
