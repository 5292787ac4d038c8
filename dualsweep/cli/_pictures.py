"""Pictures in files; they need matplotlib, but no screen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ..io._files import atomic_file, check_target

Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="PICTURE", help="Draw the result to this file: .png, .pdf or .svg."
    ),
]


def new_figure(width: float, height: float) -> Any:
    """Return a figure that no window shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            '--plot needs matplotlib, which is not installed. Get it with pip install "dualsweep'
            '[plot]".'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def check_picture(path: Path, force: bool) -> None:
    """Find out before the work, not after it, that a picture cannot be written."""
    check_target(path, force=force)
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    if _format(path) not in known:
        raise ValueError(f"--plot must end in one of .{', .'.join(sorted(known))}, but is {path}.")


def save_picture(figure: Any, path: Path, force: bool) -> None:
    """Write the picture, complete or not at all."""
    with atomic_file(path, force=force) as file:
        figure.savefig(file, format=_format(path), dpi=150)


def _format(path: Path) -> str:
    return path.suffix[1:].lower()
