"""Every shortcut off, one at a time: all intervals that certify one problem have a point in common.

A certificate is an interval, [dual, primal], with the optimum in it, whatever way led there. So the
intervals of runs with a shortcut and without it intersect, and both intersect that of a run without
any: sweeps in the order of the rows, in float64, by one thread, over rows that all stay. Each test
asserts that its shortcut acts, and that it does not where it is off: else it could not fail.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import dualsweep.newton.host as host_module
import dualsweep.placements.memory as memory_module
import dualsweep.solvers.solve as solve_module
import dualsweep.solvers.sweeps as sweeps_module
from dualsweep import LinearSVC, LinearSVR, _tuning, svc_path, svr_path
from dualsweep._threads import Workers
from dualsweep.estimators._device import _compat
from dualsweep.newton.binary import BinarySlacks
from dualsweep.newton.core import Iterate
from dualsweep.newton.multiclass import MulticlassSlacks
from dualsweep.placements import OnDevice, training_data
from dualsweep.placements.device.arrays import Space
from dualsweep.placements.device.newton import DeviceBackend
from dualsweep.problems.run import PointRun
from dualsweep.rows.many_classes import LANES_CLASSES
from dualsweep.rows.passes import DensePasses
from dualsweep.solvers.costs import Costs
from dualsweep.solvers.momentum import Momentum
from dualsweep.solvers.policy import Policy
from dualsweep.solvers.schedules import Alternating, Auto, Shrinking
from dualsweep.solvers.solve import Start
from dualsweep.training import Context, Settings, train

BINARY = {
    "hinge": {"loss": "hinge"},
    "squared_hinge": {"loss": "squared_hinge"},
    "squared": {"loss": "squared"},
}
JOINT = {
    "crammer_singer": {"multi_class": "crammer_singer"},
    "weston_watkins": {"multi_class": "weston_watkins"},
}
REGRESSION = {
    "epsilon_insensitive": {"loss": "epsilon_insensitive", "epsilon": 1.0},
    "squared_epsilon_insensitive": {"loss": "squared_epsilon_insensitive", "epsilon": 1.0},
}
FREE = {
    f"{name}-free": {**params, "intercept": "free"}
    for name, params in {**BINARY, **REGRESSION}.items()
}
FORMULATIONS = {**BINARY, **JOINT, **REGRESSION, **FREE}
LAYOUTS = {"dense": np.ascontiguousarray, "csr": sp.csr_array}
# Those whose dual variables have no bound or kink: no row is ever settled, shrunk or free anew.
UNBOUNDED = "squared", "squared-free"
BOUNDED = [name for name in FORMULATIONS if name not in UNBOUNDED]
ONE_VECTOR = [name for name in FORMULATIONS if name not in JOINT]
NOTHING: dict[str, Any] = {}
NOT_SMALL = {"SMALL_NEWTON": 0.0}  # Newton steps outside the kernel of small problems


@cache
def data(n, d, k, regression):
    """Rows of float32 numbers, some of them 0, and classes or targets that nothing fits exactly."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    X = np.where(rng.random((n, d)) < 0.7, X, 0.0).astype(np.float32)
    scores = X @ rng.normal(size=(d, k)) + rng.normal(size=(n, k))
    return X, (scores[:, 0] if regression else scores.argmax(axis=1))


WIDE = 300, 520, 4


class Shortcut(NamedTuple):
    """How runs take a shortcut, how they do not, and how it is seen that it acts."""

    spy: Callable[[Any, list[Any]], None]  # lets runs note that they take it
    on: dict[str, Any]  # parameters
    off: dict[str, Any] = NOTHING  # others of these
    prevent: Callable[[Any], None] = lambda patch: None  # where no parameter turns it off
    formulations: Any = tuple(FORMULATIONS)
    layouts: Any = tuple(LAYOUTS)
    tuned: dict[str, Any] = NOTHING  # constants of both runs
    size: tuple[int, int, int] = (150, 6, 3)
    C: float = 1.0
    tol: float = 1e-5
    dtype: Any = np.float64
    dtype_off: Any = np.float64


def after(patch, owner, name, note):
    """Call `note` with what a function returned and was given, each time it is called."""
    function = getattr(owner, name)

    def noted(*arguments, **named):
        found = function(*arguments, **named)
        note(found, *arguments, **named)
        return found

    patch.setattr(owner, name, noted)


def spy_on(owner, name, tell=lambda *arguments, **named: True):
    """Return a spy on a function: noted are the calls of which `tell` says so."""

    def spy(patch, seen):
        def note(found, *arguments, **named):
            if tell(found, *arguments, **named):
                seen.append(name)

        after(patch, owner, name, note)

    return spy


def left_out(found, plan, order, grads, gains):
    return len(plan.order) < len(plan.rows)


def several_visits(found, plan, order, grads, gains):
    return len(np.unique(order)) < len(order)


def no_rows_are_proven(patch):
    patch.setattr(sweeps_module, "proven_rows", lambda run, problem: np.zeros(problem.n_rows, bool))


def no_momentum(patch):
    patch.setattr(Policy, "wants_momentum", lambda policy, epoch: False)


def no_gram_is_kept(patch):
    hessian = BinarySlacks.hessian

    def anew(self, rho, exact):
        self.gram = None
        return hessian(self, rho, exact)

    patch.setattr(BinarySlacks, "hessian", anew)


def spy_on_grams(patch, seen):
    hessian = BinarySlacks.hessian

    def noted(self, rho, exact):
        before = self.gram
        found = hessian(self, rho, exact)
        if before is not None and found[0] is before:
            seen.append("hessian")
        return found

    patch.setattr(BinarySlacks, "hessian", noted)


SHORTCUTS = {
    "momentum": Shortcut(
        spy_on(Momentum, "advance"),
        {"solver": "sweep"},
        prevent=no_momentum,
        tuned={"FIRST_MOMENTUM": 4, "WORTH_MOMENTUM": -np.inf},  # soon, however fast sweeps are
    ),
    "newton": Shortcut(
        spy_on(Iterate, "move"), {"solver": "newton"}, {"solver": "sweep"}, tuned=NOT_SMALL
    ),
    "small": Shortcut(
        spy_on(solve_module, "newton_of_small"),
        {"solver": "newton"},
        prevent=lambda patch: patch.setattr(Costs, "small", False),
        formulations=[*BINARY, *REGRESSION],
    ),
    "settled rows": Shortcut(
        spy_on(sweeps_module, "proven_rows", lambda found, *rest: found.any()),
        {"solver": "sweep"},
        prevent=no_rows_are_proven,
        formulations=BOUNDED,
    ),
    "shrinking": Shortcut(
        spy_on(Shrinking, "observe", left_out),
        {"solver": "sweep", "schedule": "shrinking"},
        {"schedule": "permuted"},
        formulations=BOUNDED,
    ),
    "shrunk sweeps": Shortcut(
        spy_on(Alternating, "observe", left_out),
        {"solver": "sweep", "schedule": "alternating"},
        {"schedule": "permuted"},
    ),
    "frequencies": Shortcut(
        spy_on(Auto, "observe", several_visits),
        {"solver": "sweep", "schedule": "auto"},
        {"schedule": "permuted"},
    ),
    "float32 weights": Shortcut(
        spy_on(sweeps_module, "_working_weights", lambda w, run: w.dtype == np.float32),
        {"solver": "sweep"},
        tol=1e-3,
        dtype=np.float32,
    ),
    "float32 products": Shortcut(
        spy_on(
            DensePasses,
            "add_gram",
            lambda found, passes, members, scale, out, stop, exact=False: (
                passes.rows.data.dtype == np.float32 and not exact
            ),
        ),
        {"solver": "newton"},
        formulations=ONE_VECTOR,
        layouts=["dense"],
        tuned=NOT_SMALL,
        dtype=np.float32,
    ),
    "kept Gram matrix": Shortcut(
        spy_on_grams,
        {"solver": "newton"},
        prevent=no_gram_is_kept,
        formulations=[name for name in ONE_VECTOR if name not in UNBOUNDED],
        tuned=NOT_SMALL,
    ),
    "shared passes": Shortcut(
        spy_on(host_module, "measure_together", lambda found, slacks, how: len(slacks) > 1),
        {"solver": "newton"},
        prevent=lambda patch: patch.setattr(memory_module.MemoryProblems, "newton_together", 1),
        formulations=BINARY,
        layouts=["dense"],
        size=(300, 40, 4),
        tuned=NOT_SMALL,
    ),
    "threads": Shortcut(
        spy_on(Workers, "_hire", lambda found, *rest: found > 0),
        {"n_jobs": 3},
        {"n_jobs": 1},
        tuned={"PART_ROWS": 20, "LIGHT_ROWS": 20, "GRAM_ROWS": 20},
    ),
}
CASES = [
    pytest.param(name, formulation, layout, id=f"{name}-{formulation}-{layout}")
    for name, shortcut in SHORTCUTS.items()
    for formulation in shortcut.formulations
    for layout in shortcut.layouts
]


def fit(formulation, X, y, **params):
    """Return the model, which proves what it is asked to."""
    params = {**FORMULATIONS[formulation], "max_iter": 30_000, **params}
    kind = LinearSVR if "epsilon" in params else LinearSVC
    return kind(random_state=0, **params).fit(X, y)


def interval(model):
    assert model.converged_
    return model.dual_objective_, model.primal_objective_


def assert_common_point(*intervals):
    duals, primals = np.transpose(intervals)
    assert duals.max() <= primals.min(), intervals


@cache
def without_any(formulation, size, C, tol):
    """The interval of a run without shortcuts."""
    X, y = data(*size, "epsilon" in formulation)
    params = {"solver": "sweep", "schedule": "cyclic", "n_jobs": 1, "C": C, "tol": 10 * tol}
    with pytest.MonkeyPatch.context() as patch:
        no_rows_are_proven(patch)
        no_momentum(patch)
        return interval(fit(formulation, X.astype(np.float64), y, **params))


@pytest.mark.parametrize(("name", "formulation", "layout"), CASES)
def test_the_intervals_with_and_without_a_shortcut_intersect(tuned, name, formulation, layout):
    shortcut = SHORTCUTS[name]
    X, y = data(*shortcut.size, "epsilon" in formulation)
    params = {**shortcut.on, "C": shortcut.C, "tol": shortcut.tol}
    intervals = [without_any(formulation, shortcut.size, shortcut.C, shortcut.tol)]
    tuned(**shortcut.tuned)
    for off in (False, True):
        seen: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            if off:
                params.update(shortcut.off)
                shortcut.prevent(patch)
            shortcut.spy(patch, seen)
            rows = X.astype(shortcut.dtype_off if off else shortcut.dtype)
            model = fit(formulation, LAYOUTS[layout](rows), y, **params)
        assert bool(seen) != off
        intervals.append(interval(model))
    assert_common_point(*intervals)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_intervals_along_a_path_intersect_those_of_cold_starts(formulation, layout):
    X, y = data(150, 6, 3, "epsilon" in formulation)
    rows, Cs = LAYOUTS[layout](X.astype(np.float64)), [0.1, 0.3, 1.0, 3.0]
    params = {**FORMULATIONS[formulation], "tol": 1e-5, "max_iter": 30_000, "random_state": 0}
    along = svr_path if "epsilon" in params else svc_path
    found = []
    for warm in (True, False):
        seen: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            if not warm:
                patch.setattr(memory_module, "start_from", lambda *given: Start())
            spy_on(PointRun, "__init__", lambda made, run, *rest, alpha, **more: alpha is not None)(
                patch, seen
            )
            path = along(rows, y, Cs, solver="sweep", **params)
        inner = "free" in formulation  # sweeps around centres start from where they are
        assert inner or bool(seen) == warm
        found.append([interval(model) for model in path.models])
    for C, *intervals in zip(Cs, *found, strict=True):
        assert_common_point(without_any(formulation, (150, 6, 3), C, 1e-5), *intervals)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("formulation", JOINT)
def test_the_intervals_of_blocks_of_classes_intersect_that_of_sweeps(formulation, layout):
    """Conjugate gradients in float32 that factors of the classes' blocks precondition."""
    X, y = data(*WIDE, False)
    assert (X.shape[1] + 1) * 4 > _tuning.DIRECT_WEIGHTS
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        made = spy_on(MulticlassSlacks, "preconditioned", lambda found, *rest: found is not None)
        made(patch, seen)
        blocks = fit(formulation, LAYOUTS[layout](X), y, solver="newton", tol=1e-4)
        assert seen
        seen.clear()
        sweeps = fit(formulation, LAYOUTS[layout](X), y, solver="sweep", tol=1e-4)
        assert not seen
    plain = without_any(formulation, WIDE, 1.0, 1e-5)
    assert_common_point(plain, interval(blocks), interval(sweeps))


PLAIN_PYTHON = """
import json, sys
sys.path.insert(0, {folder!r})
import numba, scipy.sparse as sp, test_shortcuts as t
assert numba.config.DISABLE_JIT
X, y = t.data(24, 4, 3, False)
found = {{}}
for name in t.JOINT:
    model = t.fit(name, sp.csr_array(X), y, tol=1e-3, solver="sweep", C=0.1)
    found[name] = t.interval(model)
print(json.dumps(found))
"""


def test_the_intervals_of_vector_registers_intersect_those_of_plain_loops():
    """Lanes serve the classes of CSR rows; there are none in dense rows, or without a compiler."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_PYTHON.format(folder=str(Path(__file__).parent))],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    X, y = data(24, 4, 3, False)
    assert len(np.unique(y)) <= LANES_CLASSES
    for name in JOINT:
        models = [fit(name, layout(X), y, tol=1e-6, C=0.1) for layout in LAYOUTS.values()]
        assert_common_point(plain[name], *map(interval, models))


@pytest.mark.parametrize("formulation", [*BINARY, *JOINT])
def test_the_intervals_of_float32_steps_on_a_device_intersect_those_of_float64(formulation):
    X, y = data(150, 6, 3, False)
    space = Space(_compat().array_namespace(X), "cpu")
    settings = Settings(**FORMULATIONS[formulation], tol=1e-4)
    intervals = [without_any(formulation, (150, 6, 3), 1.0, 1e-5)]
    for dtype in (np.float32, np.float64):
        seen: list[str] = []
        with pytest.MonkeyPatch.context() as patch, Context() as context:
            narrow = spy_on(
                DeviceBackend, "measure", lambda found, it, *rest: it.dtype == np.float32
            )
            narrow(patch, seen)
            there = OnDevice(X.astype(dtype), space, True)
            fitted = train(training_data(there, y, None, settings, context), settings, context)
        assert fitted.converged
        assert bool(seen) == (dtype == np.float32)
        intervals.append((fitted.dual_objective, fitted.primal_objective))
    assert_common_point(*intervals)
