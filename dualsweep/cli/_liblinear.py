"""Answers to people who type LIBLINEAR's options."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

# What options of LIBLINEAR's train and predict are called here.
TRAIN = {
    "-s": "use --loss and --multi-class. -s 1 and -s 2 are --loss squared_hinge (the default), "
    "-s 3 is --loss hinge, -s 4 is --multi-class crammer_singer. Regression is --task regression: "
    "-s 11 and -s 12 with --loss squared_epsilon_insensitive, -s 13 without. Logistic regression, "
    "the l1 penalty and one-class models are not available.",
    "-c": "use -C or --cost.",
    "-e": "use --tol, which is the relative duality gap.",
    "-B": "use --bias, whose default is 1. -B -1 is --no-intercept.",
    "-R": "use --intercept free.",
    "-w": "use --class-weight, for instance --class-weight 1=10,-1=2.",
    "-v": "use dualsweep cv DATA --folds 5; add --costs 1, (with the comma) for C = 1 alone.",
    "-n": "use --n-jobs.",
    "-m": "use --n-jobs.",
    "-p": "use --epsilon, with --task regression.",
    "-i": "use --warm-start.",
}
PREDICT = {
    "-b": "use --probabilities for models of --loss logistic, else --calibrate DATA, with "
    "labelled rows that the model was not trained on.",
}
OPTIONS = {"predict": PREDICT} | dict.fromkeys(("train", "cv", "compare", "certify"), TRAIN)

# Where LIBLINEAR has one more name after those that a command of ours takes.
OUTPUT = {"train": "-o MODEL", "predict": "-o FILE"}
SEARCH = "LIBLINEAR's -C, the search for C, is dualsweep cv DATA."

UsageError: Any = typer.BadParameter.__mro__[1]  # of click, whichever typer uses


class Answering(TyperCommand):
    """A command that answers LIBLINEAR's options with its own."""

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
            return f"{error.message}. To name the output, use {OUTPUT[name]}."
        if getattr(getattr(error, "param", None), "name", None) == "C":
            return f"{error.message.rstrip('.')}. {SEARCH}"
        return None
