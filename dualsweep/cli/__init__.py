"""The command line: train, cv, compare, predict, certify, convert, info, warm-up, demo."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from .. import __version__
from ._liblinear import Answering
from .certify import certify
from .compare import compare
from .cv import cv
from .data import convert, info
from .demo import demo
from .predict import predict
from .train import train
from .warm_up import warm_up

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # frames and columns leave no room for words on 80 columns
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualsweep {__version__}")
        raise typer.Exit


def _help(command: Callable[..., None]) -> str:
    """Return the help of a command, its examples on lines of their own."""
    return inspect.cleandoc(command.__doc__ or "").replace("For example:\n", "\b\nFor example:\n")


def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train linear support vector machines, with a proof of how good they are.

    Every model comes with a certificate: its objective (primal), a proven lower bound on every
    model's objective (dual), and the gap between the two. Training stops when the gap, relative to
    the objective, is at most --tol: with 0.001, no model has an objective more than 0.1 % lower.

    Data are svmlight (LIBSVM) text, plain or compressed (gzip, bzip2, xz, Zstandard);
    a store that convert wrote; or .npz with the arrays data, indices, indptr, shape and y (CSR), or
    X and y (dense).

    Exit codes: 0 all is well; 1 not converged, or a check failed; 2 bad input or bad options; 130
    interrupted by Ctrl-C. Files are written completely or not at all. What exists is replaced only
    with --force, and then only files and stores: links are followed, and devices, pipes and other
    directories are refused, and so is what the command itself reads.

    For example:
      dualsweep train rcv1.svm -C 0.5 --tol 1e-4
      dualsweep cv rcv1.svm --model best.model.npz
      dualsweep predict rcv1.model.npz test.svm > labels.txt
      dualsweep certify heart_scale.model heart_scale -C 1
    """


app.callback(help=_help(main))(main)
for command in (train, cv, compare, predict, certify, convert, info, warm_up, demo):
    app.command(cls=Answering, help=_help(command))(command)
