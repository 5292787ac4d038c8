"""Fits at the same time: in threads, pools and forks, and interrupted at any moment."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from dualsweep import LinearSVC, LinearSVCCV
from dualsweep._jit import on_compilation
from dualsweep._threads import one_blas_thread
from dualsweep.training.progress import announce_compilation

# Interrupts to try; 10,000 of them take a quarter of an hour.
INTERRUPTS = int(os.environ.get("DUALSWEEP_INTERRUPTS", "150"))

KINDS = [
    {"loss": "hinge", "solver": "newton", "n_jobs": 2},
    {"loss": "squared_hinge", "solver": "sweep"},
    {"multi_class": "crammer_singer", "solver": "newton"},
    {"multi_class": "weston_watkins", "solver": "auto"},
]


def data(n=400, d=12, k=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, :k] + rng.normal(size=(n, k))).argmax(axis=1)


def fit(kind, X=None, y=None):
    if X is None:
        X, y = data()
    model = LinearSVC(**KINDS[kind], tol=1e-8, max_iter=10_000, random_state=0).fit(X, y)
    return model.coef_.tobytes(), model.dual_gap_


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_overlapping_fits_are_bitwise_those_of_one_thread():
    alone = [fit(kind) for kind in range(len(KINDS))]
    jobs = [kind for _ in range(6) for kind in range(len(KINDS))]
    with ThreadPoolExecutor(5) as pool:
        together = list(pool.map(fit, jobs))
    assert together == [alone[kind] for kind in jobs]


def test_overlapping_fits_leave_blas_as_it_was():
    before = blas_threads()
    assert 2 in before
    jobs = [kind for _ in range(4) for kind in range(len(KINDS))]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fit, jobs))
    assert blas_threads() == before


def test_the_limit_of_blas_lasts_as_long_as_somebody_wants_it():
    before = blas_threads()
    one, other = one_blas_thread(), one_blas_thread()
    one.__enter__()
    assert set(blas_threads()) == {1}
    other.__enter__()
    one.__exit__(None, None, None)  # the first to come is the first to go
    assert set(blas_threads()) == {1}
    other.__exit__(None, None, None)
    assert blas_threads() == before
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == before


def test_the_end_of_one_fit_does_not_silence_another(capsys):
    one, other = announce_compilation(True), announce_compilation(True)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    for _ in range(2):
        for tell in list(on_compilation):
            tell()
    assert capsys.readouterr().out.count("Compiling") == 1
    other.__exit__(None, None, None)
    assert not on_compilation


def test_fits_in_worker_processes():
    alone = [fit(kind) for kind in range(len(KINDS))]
    loky = Parallel(n_jobs=2)(delayed(fit)(kind) for kind in range(len(KINDS)))
    assert loky == alone
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(fit, range(len(KINDS)))) == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fits_after_a_fork_in_the_middle_of_others():
    """The child has none of the parent's fits, and none of their limits on BLAS."""
    alone, threads = [fit(kind) for kind in range(len(KINDS))], blas_threads()
    halt = threading.Event()

    def keep_fitting():
        while not halt.is_set():
            fit(0)

    thread = threading.Thread(target=keep_fitting)
    thread.start()
    try:
        time.sleep(0.05)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(fit, range(len(KINDS))).get(timeout=60) == alone
            assert pool.apply_async(blas_threads).get(timeout=60) == threads
    finally:
        halt.set()
        thread.join()


def test_estimators_shared_by_threads():
    """One estimator predicts in many threads while others are trained."""
    X, y = data()
    model = LinearSVC(random_state=0).fit(X, y)
    expected = model.decision_function(X)
    with ThreadPoolExecutor(4) as pool:
        fits = [pool.submit(fit, 3) for _ in range(4)]
        scores = [pool.submit(model.decision_function, X) for _ in range(40)]
        for score in scores:
            np.testing.assert_array_equal(score.result(), expected)
        assert len({future.result() for future in fits}) == 1


# Ctrl-C


@pytest.fixture(scope="module")
def slow():
    """A fit that takes some hundredths of a second, in each of its phases."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 40))
    return X, (X[:, :5] + 3 * rng.normal(size=(1500, 5))).argmax(axis=1)


def assert_whole(model, X, y):
    """Assert that a model that was left behind is complete and says the truth of itself."""
    gaps = 0.0
    for k, positive in enumerate(model.classes_):
        sign = np.where(y == positive, 1.0, -1.0)
        alpha = model.dual_coef_.toarray()[k] * sign
        assert (alpha >= 0).all()
        assert (alpha <= model.C).all()
        w, b = alpha * sign @ X, alpha @ sign
        dual = alpha.sum() - (w @ w + b * b) / 2
        if alpha.any():  # else the class was not begun
            np.testing.assert_allclose(model.coef_[k], w, atol=1e-9 * (1 + alpha.sum()))
        w, b = model.coef_[k], model.intercept_[k]
        loss = np.maximum(1 - sign * (X @ w + b), 0).sum()
        gaps += (w @ w + b * b) / 2 + model.C * loss - dual
    assert gaps == pytest.approx(model.dual_gap_, rel=1e-6, abs=1e-9 * model.primal_objective_)
    assert len(model.predict(X)) == len(y)


class Interrupts:
    """Sends SIGINT to this process, at moments that are told."""

    def __init__(self):
        self.go, self.delay, self.over = threading.Event(), 0.0, False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while True:
            self.go.wait()
            self.go.clear()
            if self.over:
                return
            time.sleep(self.delay)
            os.kill(os.getpid(), signal.SIGINT)

    def after(self, delay):
        self.delay = delay
        self.go.set()

    def close(self):
        self.over = True
        self.go.set()
        self.thread.join()


def test_interrupts_at_random_moments_leave_whole_models_or_none(slow):
    """And the estimator can be used again at once."""
    X, y = slow
    rng = np.random.default_rng(1)
    params = {"loss": "hinge", "C": 0.1, "tol": 1e-3, "random_state": 0}
    LinearSVC(**params).fit(X, y)
    started = time.perf_counter()
    reference = LinearSVC(**params).fit(X, y)
    seconds = time.perf_counter() - started
    handler = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts()
    left = none = late = 0
    try:
        for _ in range(INTERRUPTS):
            model = LinearSVC(**params, n_jobs=int(rng.integers(1, 3)))
            try:
                interrupts.after(rng.uniform(0, 1.2) * seconds)
                model.fit(X, y)
                while True:  # it comes after the end
                    time.sleep(0.001)
            except KeyboardInterrupt:
                pass
            assert signal.getsignal(signal.SIGINT) is handler
            if not hasattr(model, "coef_"):
                none += 1
                continue
            assert_whole(model, X, y)
            late += model.converged_
            left += not model.converged_
    finally:
        interrupts.close()
    assert left > 0.2 * INTERRUPTS
    again = LinearSVC(**params).fit(X, y)
    np.testing.assert_array_equal(again.coef_, reference.coef_)
    assert 2 in blas_threads()
    print(f"{left} models in the middle, {late} at the end, {none} without one")


@pytest.mark.filterwarnings("ignore:.* found the best score at C")
def test_an_interrupted_search_can_be_repeated(slow):
    X, y = slow
    search = {"Cs": [0.01, 0.1, 1.0], "cv": 3, "random_state": 0, "n_jobs": 2, "loss": "hinge"}
    LinearSVCCV(**search).fit(X, y)
    started = time.perf_counter()
    reference = LinearSVCCV(**search).fit(X, y)
    seconds = time.perf_counter() - started
    rng = np.random.default_rng(2)
    interrupts = Interrupts()
    try:
        for _ in range(max(INTERRUPTS // 10, 1)):
            model = LinearSVCCV(**search)
            try:
                interrupts.after(rng.uniform(0, 1.1) * seconds)
                model.fit(X, y)
                while True:
                    time.sleep(0.001)
            except KeyboardInterrupt:
                pass
            if hasattr(model, "coef_"):
                assert_whole(model.best_estimator_, X, y)
    finally:
        interrupts.close()
    np.testing.assert_array_equal(LinearSVCCV(**search).fit(X, y).scores_, reference.scores_)
