"""LIBLINEAR's way to say things, answered with ours."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

__all__ = ["Answering"]

# What options of LIBLINEAR's train and predict are called here.
TRAIN = {
    "-s": "what is trained is said by --loss and --multi-class: -s 1 or 2 is --loss squared_hinge, "
    "-s 3 --loss hinge, -s 4 --multi-class crammer_singer. Regression is --task regression: -s 11 "
    "or 12 with --loss squared_epsilon_insensitive, -s 13 as it is. Logistic regression, the l1 "
    "penalty and one-class models are not trained here.",
    "-c": "the cost is -C, or --cost.",
    "-e": "the tolerance is --tol, and is the relative duality gap.",
    "-B": "the value of the constant feature is --bias, 1 if nothing is said; -B -1 is "
    "--no-intercept.",
    "-R": "an intercept that is not penalised is --intercept free.",
    "-w": "weights of classes are --class-weight, for instance --class-weight 1=10,-1=2.",
    "-v": "cross-validation is dualsweep cv DATA --folds 5; --costs 1, is for C = 1 alone.",
    "-n": "threads are --n-jobs.",
    "-m": "threads are --n-jobs.",
    "-p": "the deviation that costs nothing is --epsilon, of --task regression.",
    "-i": "a model to start from is --warm-start.",
}
PREDICT = {
    "-b": "probabilities are --probabilities DATA, calibrated on rows that the model was not "
    "trained on.",
}
OPTIONS = {"predict": PREDICT} | dict.fromkeys(("train", "cv", "compare", "certify"), TRAIN)

# Where LIBLINEAR has one more name after those that a command of ours takes.
OUTPUT = {"train": "-o MODEL", "predict": "-o FILE"}
SEARCH = "LIBLINEAR's -C, the search for C, is dualsweep cv DATA."

UsageError: Any = typer.BadParameter.__mro__[1]  # of click, whichever typer uses


class Answering(TyperCommand):
    """A command that answers to LIBLINEAR's options, which it has not, with what it has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an error says what would have been understood."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            answer = self._answer(error)
            if answer:
                error.message, error.possibilities = answer, []
            raise

    def _answer(self, error: Any) -> str | None:
        name = str(self.name)
        option = getattr(error, "option_name", "")[:2]
        if option in OPTIONS.get(name, {}):
            return f"dualsweep {name} has no {option}: {OPTIONS[name][option]}"
        if "unexpected extra argument" in error.message and name in OUTPUT:
            return f"{error.message}. Where to write is said by {OUTPUT[name]}."
        if getattr(getattr(error, "param", None), "name", None) == "cost":
            return f"{error.message} {SEARCH}"
        return None
