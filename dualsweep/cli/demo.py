"""The demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ._command import Command
from ._options import Json


def demo(
    rows: Annotated[
        int, typer.Option(min=100, metavar="N", help="Rows of the generated text.")
    ] = 200_000,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the picture.")
    ] = Path("dualsweep-demo.png"),
    json: Json = False,
) -> None:
    """Train beside scikit-learn on three data sets, for half a minute.

    Two data sets come with scikit-learn, the third is generated text. Shows each library's time to
    the same accuracy, and draws it beside the certificate.
    """
    from ..demo import run

    with Command(json) as command:
        fits = run(rows=rows, output=output, console=Console(highlight=False, quiet=json))
        command.facts = {"fits": [fit._asdict() for fit in fits], "picture": str(output)}
