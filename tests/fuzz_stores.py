"""Feed stores and checkpoints damage: ValueError or OSError, or what is read is sound.

Not part of the test run. ``make fuzz`` gives it ten minutes; libFuzzer's options work, for instance
``python tests/fuzz_stores.py -max_total_time=60``. A failure leaves its input in ``crash-*``.
"""

import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import atheris
import numpy as np
from fuzzing import any_array, instrument, names, npy, patched
from numpy.lib import format as numpy_format

from dualsweep.datasets import make_text_like
from dualsweep.io import (
    _checks,
    _files,
    _npz,
    checkpoint,
    open_store,
    write_store,
)
from dualsweep.io.store import directory, reading
from dualsweep.placements.blocks import duals, sweeps
from dualsweep.placements.blocks.sweeps import BlockProblem, BlockSweeper
from dualsweep.problems import run as run_module
from dualsweep.problems.run import PointRun, Saving

X, Y = make_text_like(30, 20, mean_length=5, random_state=0)
SETTINGS = {"C": 1.0, "loss": "hinge"}
MOST = 1 << 16  # bytes of an input


def forged(folder):
    """Give a store the sizes and checksums of what is in it."""
    try:
        header = json.loads((folder / "header.json").read_text())
        for b, block in enumerate(header["blocks"]):
            for name in directory.ARRAYS:
                content = (folder / f"{b:06d}.{name}.npy").read_bytes()
                block[name] = {"bytes": len(content), "crc32": crc32(content)}
        header.pop("crc32", None)
        header["crc32"] = crc32(json.dumps(header, sort_keys=True).encode())
        (folder / "header.json").write_text(json.dumps(header))
    except (ValueError, TypeError, LookupError, AttributeError, OSError, RecursionError):
        pass  # damaged beyond repair


def check_store(folder, good, choices):
    files = sorted(good)
    changed = {"header.json"}
    for _ in range(choices.ConsumeIntInRange(1, 2)):
        name = files[choices.ConsumeIntInRange(0, len(files) - 1)]
        changed.add(name)
        if name != "header.json" and choices.ConsumeBool():
            (folder / name).write_bytes(npy(any_array(choices)))
        else:
            (folder / name).write_bytes(patched(good[name], choices))
    if choices.ConsumeBool():
        forged(folder)
    try:
        found = open_store(folder)
        if choices.ConsumeBool():
            found.verify()
        blocks = [found.read(b) for b in range(len(found))] if choices.ConsumeBool() else found
        for rows, labels in blocks:
            sound(rows, labels)
        sound(*found.load())
    except (ValueError, OSError) as error:
        names(error, folder)
    for name in changed:
        (folder / name).write_bytes(good[name])


def sound(rows, labels):
    """CSR that nobody can be led astray by; SciPy's loops would read beyond its arrays."""
    assert rows.shape[0] == len(labels) == len(rows.indptr) - 1
    assert rows.indptr[0] == 0
    assert (np.diff(rows.indptr) >= 0).all()
    assert rows.indptr[-1] <= min(len(rows.data), len(rows.indices))
    if rows.nnz:
        assert rows.indices.min() >= 0
        assert rows.indices.max() < rows.shape[1]
    labels.tolist()


def check_checkpoint(folder, good, choices):
    kind = choices.ConsumeIntInRange(0, 2)
    content = patched(good, choices)
    if kind > 0:
        with zipfile.ZipFile(BytesIO(good)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        name = sorted(parts)[choices.ConsumeIntInRange(0, len(parts) - 1)]
        parts[name] = npy(any_array(choices)) if kind == 1 else patched(parts[name], choices)
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, part)
        content = file.getvalue()
    path = folder / "000000.npz"
    path.write_bytes(content)
    try:
        state = read_state(folder)
    except (ValueError, OSError) as error:
        names(error, path)
        return
    assert np.isfinite(state.alpha).all()
    assert np.isfinite(state.w).all()
    assert (state.alpha.shape, state.w.shape) == ((30,), (21,))
    assert 0 <= state.estimate.checks <= state.epoch


class Unread(BlockProblem):
    """A problem of 30 rows whose blocks are not looked at."""

    def __init__(self):
        super().__init__(None, np.array([0, 30]), [100], (21,), False, 30.0, 1 << 20)

    def find_flaw(self, alphas, w):
        return None


def new_run():
    run = PointRun(Unread(), tol=1e-3, max_iter=10)
    return run, BlockSweeper(run, "auto", (0,))


def read_state(folder):
    """Return a run that goes on from a checkpoint."""
    saved = checkpoint.Checkpoint(folder, SETTINGS)
    run, sweeper = new_run()
    sweeper.keep(run, Saving(saved.read(0), lambda arrays: None, lambda why: saved.damaged(0, why)))
    return run


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        folder, saved = Path(temporary, "store"), Path(temporary, "checkpoint")
        write_store(folder, X, Y, block_bytes=600)
        good = {file.name: file.read_bytes() for file in folder.iterdir()}
        state, sweeper = new_run()
        state.epoch, state.estimate.gap = 3, 1.0
        arrays = sweeper.state(state)
        checkpoint.Checkpoint(saved, SETTINGS).write(0, arrays)
        run = (saved / "000000.npz").read_bytes()
        assert read_state(saved).epoch == 3

        def test_one_input(data):
            choices = atheris.FuzzedDataProvider(data)
            if choices.ConsumeIntInRange(0, 3) == 0:
                check_checkpoint(saved, run, choices)
            else:
                check_store(folder, good, choices)

        instrument(
            _checks,
            _files,
            _npz,
            directory,
            reading,
            checkpoint,
            duals,
            sweeps,
            run_module,
            numpy_format,
            zipfile,
        )
        limits = ["-timeout=20", f"-max_len={MOST}"]
        atheris.Setup([*sys.argv, *limits], test_one_input)
        atheris.Fuzz()
