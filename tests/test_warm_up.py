"""What `dualsweep warm-up` has compiled is not compiled again, and the code for ONNX is right."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from test_cli import facts, run

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


def test_what_is_warm_is_not_compiled_again(tmp_path):
    kinds = ["--layouts", "sparse", "--types", "float32"]
    assert facts(run("warm-up", *kinds, "--json"))["compiled"] >= 0
    for words in (["-c", CALLS], ["-m", "dualsweep", "warm-up", *kinds, "--json"]):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout == "0\n" or json.loads(done.stdout)["compiled"] == 0


def test_kinds_that_there_are_not():
    result = run("warm-up", "--types", "float16")
    assert result.exit_code == 2
    assert (
        "--types must be float32 or float64, or both with a comma, but is float16" in result.output
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
