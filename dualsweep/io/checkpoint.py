"""Checkpoints: the state of a training, from which it goes on after it was killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from .._typing import Array, JsonObject
from ._checks import blaming, parse_object, text_of
from ._npz import read_arrays, write_arrays

SETTINGS = "settings"
ADVICE = " Delete it, or choose another directory."


class Checkpoint:
    """A directory with a file for each of several problems, written atomically.

    The settings, in JSON's types, identify the training: arrays of other settings are refused.
    `absent` has the values of those that files of earlier versions do not name.
    """

    def __init__(
        self, path: str | Path, settings: JsonObject, absent: JsonObject | None = None
    ) -> None:
        self.path, self.absent = Path(path), absent or {}
        self.settings = json.loads(json.dumps(settings))
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"The checkpoint {self.path} must be a directory, but is not.")
        folder = self.path.parent
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no directory {folder} to write {self.path.name} to.")

    def _file(self, problem: int) -> Path:
        return self.path / f"{problem:06d}.npz"

    def read(self, problem: int) -> dict[str, Array] | None:
        """Return the arrays of a problem, or None if there are none yet."""
        path = self._file(problem)
        if not path.exists():
            return None
        with blaming(f"The checkpoint {path} is damaged", ADVICE):
            arrays = read_arrays(path)
            if SETTINGS not in arrays:
                raise ValueError(f"it lacks {SETTINGS}")
            before = self.absent | parse_object(text_of(arrays.pop(SETTINGS), SETTINGS))
        settings = self.settings | {"problem": problem}
        for name in sorted({*before, *settings}):
            old, new = before.get(name), settings.get(name)
            if old != new:
                raise ValueError(
                    f"The checkpoint {path} is of another run: {name} was {old!r:.100} and is "
                    f"{new!r:.100}. Go on with what it was, or choose another directory."
                )
        return arrays

    def damaged(self, problem: int, why: object) -> ValueError:
        """Return the error for arrays of a problem that turn out to be wrong."""
        return ValueError(f"The checkpoint {self._file(problem)} is damaged: {why}.{ADVICE}")

    def write(self, problem: int, arrays: dict[str, Array]) -> None:
        """Replace the arrays of a problem."""
        self.path.mkdir(exist_ok=True)
        settings = np.array(json.dumps(self.settings | {"problem": problem}))
        write_arrays(self._file(problem), {SETTINGS: settings} | arrays, force=True)
