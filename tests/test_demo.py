"""The demo tells the truth, with and without matplotlib."""

import io
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dualsweep.cli import app
from dualsweep.demo import LIBRARIES, THEIR_TOLS, TOL, Fit, _draw_times, run

ROWS = 2_000


def test_demo(tmp_path, monkeypatch):
    figures = []
    figure_class = pytest.importorskip("matplotlib.figure").Figure
    save = figure_class.savefig

    def keep(figure, *arguments, **options):
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(figure_class, "savefig", keep)
    out = io.StringIO()
    picture = tmp_path / "picture.png"
    fits = run(rows=ROWS, output=picture, console=Console(file=out, width=120, highlight=False))

    assert [fit.library for fit in fits] == 3 * list(LIBRARIES)
    ours = fits[::3]
    assert [fit.data for fit in ours] == ["breast cancer", "digits", "generated text"]
    assert all(fit.reached for fit in ours)
    for fit in fits:
        assert fit.excess >= -1e-12  # nobody is better than the lower bound, but for rounding
        assert fit.reached or fit.tol == THEIR_TOLS[-1]  # all of them were tried
        assert fit.excess < 0.01
        assert fit.accuracy > 0.7
        assert fit.seconds > 0

    text = out.getvalue()
    assert "Kernels ready" in text
    assert f"generated text: {ROWS:,} rows, 50,000 features" in text
    for fit in fits:
        assert f"{fit.primal:.6g}" in text
        assert f"{100 * fit.accuracy:.2f} %" in text
    assert str(picture) in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    check_picture(*figures, fits)


def check_picture(figure, fits):
    """Bars are the seconds of the fits, and the curve ends where the last certificate is."""
    *bars, certificate = figure.axes
    for ax, own in zip(bars, (fits[:3], fits[3:6], fits[6:]), strict=True):
        assert ax.get_title(loc="left").startswith(own[0].data)
        assert [bar.get_width() for bar in ax.patches] == [fit.seconds for fit in own]
        assert [tick.get_text() for tick in ax.get_yticklabels()] == list(LIBRARIES)
        for text, fit in zip(ax.texts, own, strict=True):
            assert text.get_text().startswith(f"{fit.seconds:.2g} s")
            assert ("above" in text.get_text()) == (not fit.reached)
    assert f"within {100 * TOL:g} % of the optimum" in figure.subfigs[0].get_suptitle()
    assert certificate.lines[0].get_ydata()[-1] <= TOL
    assert "proven: no model" in certificate.texts[0].get_text()


def test_a_library_that_did_not_get_there_is_hatched():
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    fit = Fit("data", LIBRARIES[0], 2.0, 100.0, 100.0, 0.9, TOL)
    _draw_times(ax, "data", [fit, fit._replace(library=LIBRARIES[1], seconds=12.0, primal=101.0)])
    assert [text.get_text() for text in ax.texts] == ["2 s", "12 s, and then 1 % above"]
    assert [bar.get_hatch() for bar in ax.patches] == [None, "///"]


def test_demo_without_matplotlib_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    picture = tmp_path / "picture.png"
    result = CliRunner().invoke(app, ["demo", "--rows", "500", "-o", str(picture)])
    assert result.exit_code == 0, result.output
    assert 'pip install "dualsweep[plot]"' in result.output
    assert not picture.exists()
