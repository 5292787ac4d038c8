"""The demo tells the truth, with and without matplotlib."""

import io
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dualsweep.cli import app
from dualsweep.demo import LIBRARIES, run

ROWS = 2_000


def test_demo(tmp_path):
    pytest.importorskip("matplotlib")
    out = io.StringIO()
    picture = tmp_path / "picture.png"
    fits = run(rows=ROWS, output=picture, console=Console(file=out, width=120, highlight=False))

    assert [fit.library for fit in fits] == 3 * list(LIBRARIES)
    ours = fits[::3]
    assert [fit.data for fit in ours] == ["breast cancer", "digits", "generated text"]
    for fit in ours:
        assert fit.excess < 1.1e-4  # tol, relative to the bound instead of the objective
    for fit in fits:
        assert fit.excess >= -1e-12  # nobody is better than the lower bound, but for rounding
        assert fit.excess < 0.01
        assert fit.accuracy > 0.7
        assert fit.seconds > 0

    text = out.getvalue()
    assert "Kernels ready" in text
    assert f"generated text: {ROWS:,} rows, 50,000 features" in text
    for fit in fits:
        assert f"{fit.primal:.6g}" in text
        assert f"{fit.accuracy:.2%}" in text
    assert str(picture) in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    picture = tmp_path / "picture.png"
    result = CliRunner().invoke(app, ["demo", "--rows", "500", "-o", str(picture)])
    assert result.exit_code == 0, result.output
    assert 'pip install "dualsweep[plot]"' in result.output
    assert not picture.exists()
