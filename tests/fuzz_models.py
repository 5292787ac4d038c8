"""Feed load_model damaged files: ValueError or OSError, or a model that is sound.

Not part of the test run. ``make fuzz`` gives it ten minutes; libFuzzer's options work, for instance
``python tests/fuzz_models.py -max_total_time=60``. A failure leaves its input in ``crash-*``.
"""

import sys
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris
import numpy as np
from fuzzing import any_array, instrument, names, npy, patched
from numpy.lib import format as numpy_format
from sklearn.datasets import load_iris

from dualsweep import LinearSVC
from dualsweep.io import (
    _checks,
    _files,
    _npz,
    liblinear,
    load_model,
    model,
    save_liblinear,
    save_model,
)

X, Y = load_iris(return_X_y=True)
X, Y = X[::5], Y[::5]
MOST = 1 << 16  # bytes of an input


def models():
    """Models that differ in what is in their files."""
    yield LinearSVC(random_state=0).fit(X, Y)
    yield LinearSVC(random_state=0, class_weight={0: 2.0}).fit(X[Y < 2], Y[Y < 2])
    yield LinearSVC(multi_class="crammer_singer", random_state=0).fit(X, np.array(list("abc"))[Y])


def made(choices, npzs, texts):
    """A file: any bytes, or a model with some damage, of which checksums may know nothing."""
    kind = choices.ConsumeIntInRange(0, 5)
    npz = npzs[choices.ConsumeIntInRange(0, len(npzs) - 1)]
    if kind == 0:
        return choices.ConsumeBytes(choices.remaining_bytes())
    if kind == 1:
        return patched(texts[choices.ConsumeIntInRange(0, len(texts) - 1)], choices)
    if kind == 2:
        return patched(npz, choices)
    with zipfile.ZipFile(BytesIO(npz)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(parts)[choices.ConsumeIntInRange(0, len(parts) - 1)]
    if kind == 3:
        parts[name] = patched(parts[name], choices)
    elif kind == 4:
        parts[name] = npy(any_array(choices))
    else:
        header = str(np.load(BytesIO(parts["header.npy"])))
        text = patched(header.encode(), choices).decode(errors="replace")
        parts["header.npy"] = npy(np.array(text))
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def check(path, again, content):
    path.write_bytes(content)
    try:
        found = load_model(path)
    except (ValueError, OSError) as error:
        names(error, path)
        return
    n_classes = len(found.classes_)
    rows = np.zeros((2, max(found.n_features_in_, 1)))
    if 0 < found.n_features_in_ < MOST:
        values = found.decision_function(rows)
        assert np.isfinite(values).all()
        assert values.shape == ((2,) if n_classes == 2 else (2, n_classes))
        assert np.isin(found.predict(rows), found.classes_).all()
    if hasattr(found, "dual_coef_") and found.dual_coef_.shape[1] < MOST:
        assert np.isfinite(found.dual_coef_.toarray()).all()
        assert found.dual_coef_.shape[0] == len(found.coef_)
    save_model(found, again, force=True)
    np.testing.assert_array_equal(load_model(again).coef_, found.coef_)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        path, again, seeds = Path(folder, "model"), Path(folder, "again.npz"), Path(folder, "seeds")
        npzs, texts = [], []
        for svc in models():
            save_model(svc, path, force=True)
            npzs.append(path.read_bytes())
            if svc.classes_.dtype.kind == "i":
                save_liblinear(svc, path, force=True)
                texts.append(path.read_bytes())
        seeds.mkdir()
        for i, content in enumerate([*npzs, *texts]):
            check(path, again, content)
            (seeds / str(i)).write_bytes(content + b"\0")  # the choice of any bytes comes last

        def test_one_input(data):
            choices = atheris.FuzzedDataProvider(data)
            check(path, again, made(choices, npzs, texts))

        instrument(_checks, _files, _npz, liblinear, model, numpy_format, zipfile)
        limits = ["-timeout=20", f"-max_len={MOST}"]
        atheris.Setup([*sys.argv, *limits, str(seeds)], test_one_input)
        atheris.Fuzz()
