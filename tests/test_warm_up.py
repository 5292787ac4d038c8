"""What `dualsweep warm-up` has compiled is not compiled again, and the code for ONNX is right."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from test_cli import run

PAGE = (Path(__file__).parent.parent / "docs/from-scikit-learn.md").read_text()

CALLS = """
import numpy as np, scipy.sparse as sp
from dualsweep import LinearSVC, _jit
compiled = []
_jit.on_compilation.append(lambda: compiled.append(1))
rng = np.random.default_rng(0)
X, y = sp.csr_array(rng.normal(size=(60, 5)).astype(np.float32)), np.arange(60) % 3
for method in ("ovr", "crammer_singer", "weston_watkins"):
    model = LinearSVC(multi_class=method, C=0.01, tol=0.01, random_state=0).fit(X, y)
    model.predict(X)
    model.save_proof("proof", X, y, force=True)
from dualsweep.cli import app
open("a.svm", "w").write("1 1:1\\n-1 2:1\\n")
for words in (["train", "a.svm", "-q"], ["predict", "a.model.npz", "a.svm", "-o", "out"]):
    app(words, standalone_mode=False)
print(len(compiled))
"""


# Fits of each kind that there is, and what compiled, as JSON.
FITS = """
import itertools, json, sys, warnings
import numpy as np, scipy.sparse as sp
from dualsweep import LinearSVC, LinearSVR, LogisticRegression, _jit
from dualsweep.losses import LOSSES, REGRESSION_LOSSES
warnings.simplefilter("ignore")
compiled, found = [], {}
_jit.on_compilation.append(lambda: compiled.append(1))
rng = np.random.default_rng(0)
X, y = rng.normal(size=(120, 5)).astype(sys.argv[2]), np.arange(120) % 3
rows = sp.csr_array(X) if sys.argv[1] == "sparse" else X
intercepts = [{}, {"intercept": "free"}, {"fit_intercept": False}]
kinds = [(LinearSVC, i | {"loss": loss}) for i in intercepts for loss in LOSSES]
kinds += [(LinearSVR, i | {"loss": loss}) for i in intercepts for loss in REGRESSION_LOSSES]
for method, i in itertools.product(("crammer_singer", "weston_watkins"), intercepts[::2]):
    kinds.append((LinearSVC, i | {"multi_class": method, "loss": "hinge"}))
kinds += [(LogisticRegression, i) for i in (*intercepts, {"intercept": "penalized"})]
for (kind, options), solver, C, tol in itertools.product(
    kinds, ("auto", "sweep", "newton"), (0.01, 100.0), (1e-2, 1e-7)
):
    for target in (X[:, 0] + 0.1 * y,) if kind is LinearSVR else (y, y > 0):
        model = kind(solver=solver, C=C, tol=tol, max_iter=200, random_state=0, **options)
        model.fit(rows, target).predict(rows)
        if compiled:
            found[repr(model)] = len(compiled)
        compiled.clear()
print(json.dumps(found))
"""


def new_process(words, cache, folder):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_what_is_warm_is_not_compiled_again(tmp_path):
    """From an empty cache: nothing that another test has compiled is there.

    Of sparse rows; tests/test_wheel.py has dense ones.
    """
    kinds = ["-m", "dualsweep", "warm-up", "--layouts", "sparse", "--types", "float32", "--json"]
    cache = tmp_path / "cache"
    assert new_process(kinds, cache, tmp_path)["compiled"] > 0
    assert new_process(["-c", FITS, "sparse", "float32"], cache, tmp_path) == {}
    assert new_process(["-c", CALLS], cache, tmp_path) == 0
    assert new_process(kinds, cache, tmp_path)["compiled"] == 0


def test_kinds_that_there_are_not():
    result = run("warm-up", "--types", "float16")
    assert result.exit_code == 2
    assert (
        "--types must be float32 or float64, or several with commas, but is float16"
        in result.output
    )


def test_onnx_as_shown():
    pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "onnx" in block]
    names = {}
    exec(code, names)
    X, _ = load_iris(return_X_y=True)
    assert (names["labels"] == names["model"].predict(X)).all()
    assert abs(names["scores"] - names["model"].decision_function(X)).max() < 1e-5
