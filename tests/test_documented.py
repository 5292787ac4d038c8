"""Every parameter and attribute of the public API is documented, with its default and its use."""

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from numpydoc.docscrape import NumpyDocString
from sklearn.datasets import load_iris
from typer.main import get_command

import dualsweep
from dualsweep import datasets, distributed, estimators, io, plotting
from dualsweep.cli import app

ROOT = Path(__file__).parent.parent
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (dualsweep, estimators, io, plotting, distributed, datasets)
    for name in module.__all__
    if name != "__version__"
}
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}
RESULTS = {
    name: thing
    for name, thing in CLASSES.items()
    if (is_dataclass(thing) and not hasattr(thing, "plot")) or issubclass(thing, tuple)
}
METHODS = {
    f"{name}.{method}": function
    for name, thing in CLASSES.items()
    for method, function in inspect.getmembers(thing, inspect.isroutine)
    if method[0] != "_" and str(getattr(function, "__module__", "")).startswith("dualsweep")
}
# What people give arguments to. The fields of results are made, not chosen.
CALLED = {n: thing for n, thing in (PUBLIC | METHODS).items() if n not in RESULTS}
ESTIMATORS = [
    dualsweep.LinearSVC,
    dualsweep.LinearSVCCV,
    dualsweep.LinearSVR,
    dualsweep.LinearSVRCV,
    dualsweep.LogisticRegression,
    dualsweep.LogisticRegressionCV,
    distributed.LinearSVC,
    distributed.LogisticRegression,
]


def test_everything_public_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    listed = {f"dualsweep.{name}" for name in listed}
    assert {id(PUBLIC[name]) for name in listed} == {id(thing) for thing in PUBLIC.values()}
    titles = re.findall(r"^## dualsweep (.+)$", (ROOT / "docs/commands.md").read_text(), re.M)
    assert set(titles) == set(get_command(app).commands)


def entries(thing, section):
    """Type and description by name, of a section of a docstring."""
    found = {}
    for entry in NumpyDocString(inspect.getdoc(thing))[section]:
        for name in entry.name.split(", "):
            assert name not in found, f"{name} is documented twice"
            found[name.lstrip("*")] = (entry.type, " ".join(entry.desc))
    return found


def defaults(thing):
    """The default of each parameter, or `inspect.Parameter.empty`."""
    parameters = inspect.signature(thing).parameters.values()
    return {p.name: p.default for p in parameters if p.name != "self"}


@pytest.mark.parametrize("name", sorted(CALLED))
def test_parameters_are_documented(name):
    documented = entries(CALLED[name], "Parameters")
    assert list(documented) == list(defaults(CALLED[name]))
    for parameter, (kind, description) in documented.items():
        assert kind, f"what is {parameter}?"
        assert description, f"what does {parameter} do?"


@pytest.mark.parametrize("name", sorted(CALLED))
def test_defaults_are_documented(name):
    documented = entries(CALLED[name], "Parameters")
    for parameter, default in defaults(CALLED[name]).items():
        said = re.search(r"default=(.*)$", documented[parameter][0])
        if default is inspect.Parameter.empty:
            assert said is None, f"{parameter} has no default"
        else:
            assert said is not None, f"what is {parameter} if it is not given?"
            assert eval(said[1], {"np": np}) == default


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_of_estimators_say_when_to_change_them(estimator):
    for name, (_, description) in entries(estimator, "Parameters").items():
        statements = re.findall(r"[.;:](?= |$)", description)
        assert len(statements) >= 2, f"{name}: {description!r} says what it is, and what else?"


def fitted(estimator, X, y):
    """The public attributes that `fit` sets."""
    model = estimator(tol=0.1, random_state=0).fit(X, y)
    return {name for name in vars(model) if name.endswith("_") and name[0] != "_"}


@pytest.mark.parametrize("estimator", ESTIMATORS[:4])
def test_fitted_attributes_are_documented(estimator):
    X, y = load_iris(return_X_y=True)
    X = pd.DataFrame(X, columns=list("abcd"))
    documented = entries(estimator, "Attributes")
    assert set(documented) == fitted(estimator, X, y)
    for name, (kind, description) in documented.items():
        assert kind, f"what is {name}?"
        assert description, f"what is in {name}?"


def test_fitted_attributes_on_a_cluster_are_documented():
    X, y = load_iris(return_X_y=True)
    with Client(processes=False, n_workers=1, dashboard_address=":0"):
        found = fitted(distributed.LinearSVC, da.from_array(X, (75, 4)), y)
    assert set(entries(distributed.LinearSVC, "Attributes")) == found | {"feature_names_in_"}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_fields_of_results_are_documented(name):
    kind = RESULTS[name]
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else kind._fields
    assert list(entries(kind, "Attributes")) == list(names)
    for property_ in vars(kind).values():
        if isinstance(property_, property):
            assert property_.__doc__


def test_what_displays_draw_is_documented():
    pytest.importorskip("matplotlib").use("agg")
    X, y = load_iris(return_X_y=True)
    compared = dualsweep.compare_multiclass(X, y, Cs=[0.1], n_repeats=2, tol=0.1, random_state=0)
    for drawn in (
        plotting.ConvergenceDisplay.from_estimator(dualsweep.LinearSVC(random_state=0).fit(X, y)),
        plotting.PathDisplay.from_estimator(dualsweep.LinearSVCCV(random_state=0).fit(X, y)),
        plotting.ComparisonDisplay(compared).plot(),
    ):
        found = {name for name in vars(drawn) if name.endswith("_")}
        assert set(entries(type(drawn), "Attributes")) == found
