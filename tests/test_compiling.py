"""Waiting for the compiler: who is told of it, and whose seconds it is no part of."""

import gc
import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.errors import NumbaError
from test_device import some_digits, train_in_namespace

from dualsweep import LinearSVC, _clock, _jit, svc_path
from dualsweep._clock import clock, compiling, seconds_compiling
from dualsweep._jit import jit, on_compilation
from dualsweep.newton.core import Iterate
from dualsweep.problems.binary import BinaryProblem
from dualsweep.training import Context, progress
from dualsweep.training.progress import suggest_warm_up


@pytest.fixture
def time(monkeypatch):
    """Seconds that pass only where a test lets them, as a list of one number."""
    now = [100.0]
    monkeypatch.setattr(_clock, "perf_counter", lambda: now[0])
    monkeypatch.setattr(_clock, "_waits", _clock._Waits())
    return now


@pytest.fixture
def compile_for(time):
    """Return a function that does what a kernel does which compiles for so many seconds."""

    def compile_for(seconds):
        with compiling():
            for tell in list(on_compilation):
                tell()
            time[0] += seconds

    return compile_for


@pytest.fixture
def unsaid(monkeypatch):
    """A process that has said nothing, and has no logging, as pytest has."""
    monkeypatch.setattr(progress, "_suggested", False)
    monkeypatch.setattr(progress.logger, "hasHandlers", lambda: False)
    monkeypatch.delenv("DUALSWEEP_QUIET", raising=False)


def test_the_clock_stands_still(time):
    with compiling():
        time[0] += 1.0
        with compiling():  # a kernel that the first one calls
            time[0] += 1.0
            assert (clock(), seconds_compiling()) == (100.0, 2.0)
        time[0] += 1.0
    time[0] += 10.0
    assert (clock(), seconds_compiling()) == (110.0, 3.0)


def test_threads_that_wait_at_once_wait_once(time):
    one, other = compiling(), compiling()
    one.__enter__()
    time[0] += 1.0
    other.__enter__()
    time[0] += 1.0
    one.__exit__(None, None, None)
    time[0] += 1.0
    assert clock() == 100.0
    other.__exit__(None, None, None)
    time[0] += 1.0
    assert (clock(), seconds_compiling()) == (101.0, 3.0)


def test_a_compilation_that_fails_ends(time):
    def fail():
        time[0] += 1.0
        raise KeyError

    with pytest.raises(KeyError):
        compiling()(fail)()
    time[0] += 1.0
    assert clock() == 101.0


def test_a_fork_leaves_the_compilation_of_others_behind(time):
    with compiling():
        time[0] += 1.0
        _clock._start_anew()  # in the child; its parent's other thread is not there
        time[0] += 1.0
        assert (clock(), seconds_compiling()) == (101.0, 1.0)


def test_kernels_stop_the_clock():
    before = seconds_compiling()

    @jit
    def kernel(x):
        return x + 1

    assert seconds_compiling() == before
    assert kernel(1) == 2
    after = seconds_compiling()
    assert after > before
    assert kernel(2) == 3
    assert seconds_compiling() == after


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_pauses_while_a_kernel_is_compiled(collects, monkeypatch):
    seen = []
    monkeypatch.setattr(_jit._numba, "_or_none", lambda *_: seen.append(gc.isenabled()))

    @jit
    def kernel(x):
        return x + 1

    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        assert kernel(1) == 2
        with pytest.raises(NumbaError):
            kernel("text")
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
    assert seen
    assert not any(seen)


def test_compilation_is_in_no_seconds(time, compile_for, monkeypatch):
    sweep = BinaryProblem.sweep

    def slow(*args, **options):
        compile_for(1000.0)
        time[0] += 1.0
        return sweep(*args, **options)

    monkeypatch.setattr(BinaryProblem, "sweep", slow)
    X = np.random.default_rng(0).normal(size=(50, 3))
    options = {"tol": 1e-6, "solver": "sweep", "random_state": 0, "max_time": 500.0}
    model = LinearSVC(**options).fit(X, X[:, 0] > 0)
    assert model.converged_
    assert time[0] > 100.0 + 500.0
    seconds = time[0] - 100.0 - seconds_compiling()
    assert model.history_["time"].max() == seconds
    assert model.estimates_["time"].max() == seconds
    n, started = seconds_compiling(), clock()
    path = svc_path(X, X[:, 0] > 0, Cs=[0.1, 1.0], **options)
    assert seconds_compiling() > n
    assert (path.relative_gaps <= 1e-6).all()
    assert sum(path.times) == clock() - started


def test_compilation_is_in_no_seconds_on_a_device(time, compile_for, monkeypatch):
    measure = Iterate.measure

    def slow(iterate):
        compile_for(1000.0)
        time[0] += 1.0
        return measure(iterate)

    monkeypatch.setattr(Iterate, "measure", slow)
    X, y = some_digits(3, 90)
    fitted = train_in_namespace(X, y, loss="squared_hinge", tol=1e-6, max_time=500.0)
    assert fitted.converged
    assert time[0] > 1100.0
    assert 0.0 < fitted.history["time"].max() <= time[0] - 100.0 - seconds_compiling()


def test_long_compilation_is_told_once(unsaid, compile_for, capsys):
    for _ in range(2):
        with Context():
            for _ in range(4):
                compile_for(1.5)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "dualsweep: compiling kernels for this kind of data (3 s so far). `dualsweep warm-up` "
        "compiles all of them ahead of time. DUALSWEEP_QUIET=1 turns this line off.\n"
    )
    assert not on_compilation


def test_one_long_kernel_is_told_of_at_the_end(unsaid, compile_for, capsys):
    with suggest_warm_up():
        compile_for(7.0)
    assert "(7 s so far)" in capsys.readouterr().err


def test_what_is_not_told(unsaid, time, compile_for, capsys):
    compile_for(10.0)  # before the fit
    with Context():
        compile_for(2.0)  # not for long
    with Context():
        time[0] += 10.0  # not compiling
    with Context(), compiling():
        time[0] += 10.0  # only loading from disk
    with Context(suggest=False):
        compile_for(10.0)  # compiling ahead
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("value", "said"), [("1", 0), ("yes", 0), ("0", 1), ("", 1)])
def test_the_environment_turns_it_off(unsaid, compile_for, monkeypatch, capsys, value, said):
    monkeypatch.setenv("DUALSWEEP_QUIET", value)
    with Context():
        compile_for(5.0)
    assert capsys.readouterr().err.count("warm-up") == said


def test_logging_gets_it_instead(unsaid, compile_for, monkeypatch, capsys, caplog):
    monkeypatch.setattr(progress.logger, "hasHandlers", lambda: True)
    with caplog.at_level(logging.INFO, logger="dualsweep"), Context():
        compile_for(5.0)
    assert "(5 s so far). `dualsweep warm-up`" in caplog.text
    assert capsys.readouterr().err == ""


def test_a_logger_that_is_quiet_says_nothing(unsaid, compile_for, monkeypatch, capsys):
    monkeypatch.setattr(progress.logger, "level", logging.ERROR)
    with Context():
        compile_for(5.0)
    assert capsys.readouterr().err == ""


def test_processes_without_stderr(unsaid, compile_for, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    with Context():
        compile_for(5.0)
    assert capsys.readouterr().out == ""


FIT = """
import numpy as np
from dualsweep import LinearSVC, _tuning

_tuning.LONG_COMPILATION = 0.0  # however fast the machine is
X = np.random.default_rng(0).normal(size=(20, 3))
for _ in range(2):
    LinearSVC(random_state=0).fit(X, X[:, 0] > 0)
"""


def test_a_first_fit_says_it(tmp_path):
    """In a new process with an empty cache; the next process loads what that compiled."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "DUALSWEEP_QUIET": ""}
    first, second = (
        subprocess.run(
            [sys.executable, "-W", "error", "-c", FIT],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    )
    assert (first.stdout, second.stdout, second.stderr) == ("", "", "")
    assert first.stderr.count("dualsweep warm-up") == len(first.stderr.splitlines()) == 1
