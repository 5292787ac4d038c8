"""The demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ._command import Command
from ._options import (
    Json,
)

__all__ = ["demo"]


def demo(
    rows: Annotated[int, typer.Option(min=100, help="Rows of the generated text.")] = 200_000,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the picture.")
    ] = Path("dualsweep-demo.png"),
    json: Json = False,
) -> None:
    """Train on three data sets beside scikit-learn's LinearSVC; takes half a minute.

    Two data sets come with scikit-learn, the third is generated text. Shows the certificates,
    times and accuracies, and draws how the gaps came down.
    """
    from ..demo import run

    with Command(json) as command:
        fits = run(rows=rows, output=output, console=Console(highlight=False, quiet=json))
        command.facts = {"fits": [fit._asdict() for fit in fits], "picture": str(output)}
