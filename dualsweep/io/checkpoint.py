"""Checkpoints: where the runs of a fit are, so that a killed one goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ._checks import parse_object
from ._npz import read_arrays, write_arrays

SETTINGS = "settings"


class Checkpoint:
    """A directory with a file for each of several problems, written atomically.

    Parameters
    ----------
    path : str or Path
        The directory; made with the first file if it does not exist.
    settings : dict
        What the arrays are worthless without, in JSON's types. Reading refuses what was written
        under other settings.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.settings = json.loads(json.dumps(settings))
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"The checkpoint {self.path} must be a directory, but is not.")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"There is no directory {self.path.parent} to write {self.path.name} to."
            )

    def _file(self, problem: int) -> Path:
        return self.path / f"{problem:06d}.npz"

    def _settings(self, problem: int) -> dict[str, Any]:
        return self.settings | {"problem": problem}

    def read(self, problem: int) -> dict[str, Any] | None:
        """Return the arrays of a problem, or None if there are none yet."""
        path = self._file(problem)
        if not path.exists():
            return None
        try:
            arrays = read_arrays(path)
            before = _object(arrays.pop(SETTINGS, None))
        except ValueError as error:
            raise self.damaged(problem, error) from error
        settings = self._settings(problem)
        for name in sorted({*before, *settings}):
            old, new = before.get(name), settings.get(name)
            if old != new:
                raise ValueError(
                    f"The checkpoint {path} is of another run: {name} was {_short(old)} and is "
                    f"{_short(new)}. Go on with what it was, or choose another directory."
                )
        return arrays

    def damaged(self, problem: int, why: object) -> ValueError:
        """Return what to raise if the arrays of a problem turn out to be wrong."""
        return ValueError(
            f"The checkpoint {self._file(problem)} is damaged ({why}). Delete it, or choose "
            "another directory."
        )

    def write(self, problem: int, arrays: dict[str, Any]) -> None:
        """Replace the arrays of a problem."""
        self.path.mkdir(exist_ok=True)
        settings = {SETTINGS: np.array(json.dumps(self._settings(problem)))}
        write_arrays(self._file(problem), settings | arrays, force=True)


def _object(array: Any) -> dict[str, Any]:
    if array is None or array.dtype.kind != "U" or array.ndim:
        raise ValueError(f"it lacks {SETTINGS}")
    return parse_object(str(array))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
