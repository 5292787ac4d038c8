"""Certificates of models that are already there."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._parameters import Number, parameters_of
from ..io import load_model
from ..training.parameters import PROBABILISTIC
from ._command import FAILED, Command
from ._options import (
    ANY_FORMULATION,
    ANY_LOSS,
    OPTIONS,
    Data,
    Force,
    Json,
    NJobs,
    Quiet,
    ZeroBased,
    takes,
)

if TYPE_CHECKING:
    from ..estimators import LinearSVC, LinearSVR, LogisticRegression

SAME = 1e-9  # relative difference of objectives that rounding explains


# The parameters of the problem, which the model has too.
PROBLEM = ("C", "loss", "epsilon", "multi_class", "intercept")

# Options that by default are as the model has them.
AS_THE_MODEL: dict[str, Any] = {"default": None, "show_default": "the model's"}
UNRECORDED = AS_THE_MODEL | {"show_default": "the model's; LIBLINEAR does not record it"}


@takes(
    {*PROBLEM, "tol", "max_iter", "max_time", "memory_limit"},
    C=UNRECORDED | {"help": "C of the problem to judge the model by."},
    loss=ANY_LOSS | AS_THE_MODEL,
    epsilon=UNRECORDED | {"help": "Epsilon of regression."},
    multi_class=ANY_FORMULATION | AS_THE_MODEL | {"help": "For more than two classes: {choices}."},
    intercept=AS_THE_MODEL,
    tol={"allowed": (Number(least=0.0),), "help": "Relative gap to prove."},
    max_iter={"help": "Most epochs to look for a bound."},
    max_time={"help": "Most seconds to look for a bound."},
)
def certify(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model of dualsweep or LIBLINEAR.")
    ],
    file: Data,
    *,
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
    **given: Any,
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

    changes = {name: given.pop(name) for name in PROBLEM}
    changes = {name: value for name, value in changes.items() if value is not None}
    with Command(json, quiet, reads=[model_file, file]) as command:
        command.will_write(proof, force)
        model = load_model(model_file)
        recorded = getattr(model, "primal_objective_", None)
        regression = not hasattr(model, "classes_")
        for name in ("C", "epsilon") if regression else ("C",):
            if name not in changes and recorded is None:
                raise typer.BadParameter(
                    f"{model_file} does not record {name}. Pass it with {OPTIONS[name]}."
                )
        other, name = ("classification", "multi_class") if regression else ("regression", "epsilon")
        if name in changes:
            raise typer.BadParameter(
                f"{OPTIONS[name]} applies to {other}, but {model_file} is not for that."
            )
        if isinstance(model, estimators.LogisticRegression):
            model = _as_judged(model, changes)
        model.set_params(**changes)
        model._validate_params()
        width = {"n_features": model.n_features_in_, "zero_based": zero_based, "n_jobs": n_jobs}
        X, y = command.load_or_open(file, given["memory_limit"], **width)
        started = perf_counter()
        found = estimators.certify(model, X, y, n_jobs=n_jobs, proof=proof, force=force, **given)
        command.show(
            "Certificate",
            {
                "problem": f"C = {model.C:g}, {_problem(model)}",
                "primal_objective": found.primal,
                "dual_objective": found.dual,
                "relative_gap": found.relative_gap,
                "tol": given["tol"],
                "proven": found.relative_gap <= given["tol"],
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
            if abs(recorded - found.primal) > SAME * found.primal and not changes:
                command.say(
                    f"{model_file} records an objective of {recorded:.6g}: it was trained on other "
                    "data, or has been changed since."
                )
        if found.relative_gap > given["tol"]:
            command.code = FAILED


def _as_judged(
    model: LogisticRegression, changes: dict[str, Any]
) -> LinearSVC | LogisticRegression:
    """Return a model as one of the loss that it is judged by; take that out of the changes."""
    from ..estimators import LinearSVC

    formulation = changes.get("multi_class", model.multi_class)
    if changes.get("loss", "logistic") == "logistic" and formulation in PROBABILISTIC:
        changes.pop("loss", None)
        return model
    kept = parameters_of(LinearSVC).keys() - {"solver"}
    params = {name: value for name, value in model.get_params().items() if name in kept}
    params["multi_class"] = "ovr"
    twin = LinearSVC(loss=model.loss, **params)
    fitted = vars(model).keys() - model.get_params().keys()
    twin.__dict__.update({name: vars(model)[name] for name in fitted})
    return twin


def _problem(model: LinearSVC | LinearSVR | LogisticRegression) -> str:
    """Return what the problem of a model is called, but for C."""
    if not hasattr(model, "classes_"):
        text = f"{model.loss} loss, epsilon = {model.epsilon:g}"
    elif model.multi_class not in PROBABILISTIC or (
        model.multi_class == "multinomial" and len(model.classes_) > 2
    ):
        text = model.multi_class.replace("_", "-")
    else:
        text = f"{model.loss} loss" + ", one versus the rest" * (len(model.classes_) > 2)
    return text + ", free intercept" * (model.fit_intercept and model.intercept == "free")
