"""What `dualsweep warm-up` is asked for, and the code for ONNX; the rest is in test_wheel.py."""

import re
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from test_cli import run

PAGE = (Path(__file__).parent.parent / "docs/from-scikit-learn.md").read_text()


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
