"""Checkpoints: the state of a training, from which it goes on after it was killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from .._typing import Array, JsonObject
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
        What identifies the training, in JSON's types. Reading refuses arrays of other settings.
    absent : dict, optional
        What settings were where a file does not name them, which is of an earlier version.
    """

    def __init__(
        self, path: str | Path, settings: JsonObject, absent: JsonObject | None = None
    ) -> None:
        self.path, self.absent = Path(path), absent or {}
        self.settings = json.loads(json.dumps(settings))
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"The checkpoint {self.path} must be a directory, but is not.")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"There is no directory {self.path.parent} to write {self.path.name} to."
            )

    def _file(self, problem: int) -> Path:
        return self.path / f"{problem:06d}.npz"

    def read(self, problem: int) -> dict[str, Array] | None:
        """Return the arrays of a problem, or None if there are none yet."""
        path = self._file(problem)
        if not path.exists():
            return None
        try:
            arrays = read_arrays(path)
            text = arrays.pop(SETTINGS, None)
            if text is None or text.dtype.kind != "U" or text.ndim:
                raise ValueError(f"it lacks {SETTINGS}")
            before = self.absent | parse_object(str(text))
        except ValueError as error:
            raise self.damaged(problem, error) from error
        settings = self.settings | {"problem": problem}
        for name in sorted({*before, *settings}):
            old, new = before.get(name), settings.get(name)
            if old != new:
                raise ValueError(
                    f"The checkpoint {path} is of another run: {name} was {_short(old)} and is "
                    f"{_short(new)}. Go on with what it was, or choose another directory."
                )
        return arrays

    def damaged(self, problem: int, why: object) -> ValueError:
        """Return the error for arrays of a problem that turn out to be wrong."""
        return ValueError(
            f"The checkpoint {self._file(problem)} is damaged ({why}). Delete it, or choose "
            "another directory."
        )

    def write(self, problem: int, arrays: dict[str, Array]) -> None:
        """Replace the arrays of a problem."""
        self.path.mkdir(exist_ok=True)
        settings = np.array(json.dumps(self.settings | {"problem": problem}))
        write_arrays(self._file(problem), {SETTINGS: settings} | arrays, force=True)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
