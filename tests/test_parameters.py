"""The table of parameters: what is allowed, what people are told, and what a checkpoint is for."""

import numpy as np
import pytest

from dualsweep import LinearSVC, LinearSVR
from dualsweep._parameters import (
    InvalidParameterError,
    Number,
    OneOf,
    Parameters,
    Such,
    Whole,
    parameter,
    parameters_of,
)
from dualsweep.io import write_store
from dualsweep.io.checkpoint import Checkpoint
from dualsweep.training import Settings
from dualsweep.training.parameters import Classification, Regression

IDENTIFYING = {n: it for n, it in parameters_of(Settings).items() if it.identifies}


class Example(Parameters):
    """An example.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Nothing else.
    """

    way: str = parameter("far", OneOf(("far", "near")), text="How far.", identifies=True)
    size: float | None = parameter(
        1.0, Number(above=0.0), None, text="How large. " * 20, identifies=False
    )


class Larger(Example):
    """Has one more, and another default."""

    way: str = parameter("near", OneOf(("far", "near")), text="How far.", identifies=True)
    rows: int = parameter(3, Whole(1, 9), text="How many.", identifies=True)


def test_parameters_are_keywords_and_attributes():
    assert vars(Example()) == {"way": "far", "size": 1.0}
    assert vars(Larger(size=2)) == {"way": "near", "size": 2, "rows": 3}
    with pytest.raises(TypeError, match="unexpected keyword argument 'rows'"):
        Example(rows=1)
    with pytest.raises(TypeError, match="positional"):
        Example("near")


def test_a_constructor_that_somebody_writes_is_inherited():
    class Own(LinearSVC):
        def __init__(self, C=2.0, extra=1):
            super().__init__(C=C)
            self.extra = extra

    class Child(Own):
        pass

    assert Child(extra=3).get_params() == {"C": 2.0, "extra": 3}
    assert (Child().C, Child().tol) == (2.0, LinearSVC().tol)


def test_parameters_can_be_left_out():
    class Less(Larger, without=("way",)):
        """Has one less."""

    assert vars(Less()) == {"size": 1.0, "rows": 3}
    assert Less().way == "near"
    with pytest.raises(TypeError, match=r"Less.__init__\(\) got an unexpected keyword .*'way'"):
        Less(way="far")


def test_what_was_pickled_before_there_was_a_parameter_has_its_default():
    older = Larger.__new__(Larger)
    vars(older).update(size=5.0)
    assert (older.way, older.size, older.rows) == ("near", 5.0, 3)


def test_docstrings_have_the_entries_in_their_order():
    text = Example.__doc__
    assert '    way : {"far", "near"}, default="far"\n        How far.\n' in text
    assert text.index("    way : ") < text.index("    size : float, default=1.0\n")
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("large.") == 20


@pytest.mark.parametrize(
    ("allowed", "good", "bad", "said"),
    [
        (OneOf(("a", "b", "c")), ["a", "c"], ["d", None, 1, ["a"]], '"a", "b" or "c"'),
        (
            Number(above=0.0),
            [1, 0.1, np.float32(2)],
            [0, -1, np.nan, np.inf, "1", 10**400],
            "above 0",
        ),
        (Number(least=0.0), [0, 0.1], [-1e-300, np.nan, np.inf, None], "at least 0"),
        (Number(1.0, 2.0), [1, 2], [0.9, 2.1], "between 1 and 2"),
        (Whole(least=1), [1, np.int64(3), 10**30], [0, 1.0, None, "1"], "an integer of at least 1"),
        (Whole(most=-1), [-1, -(10**30)], [0, 1, -1.0], "an integer of at most -1"),
        (Whole(0, 9), [0, 9], [-1, 10], "an integer between 0 and 9"),
        (Such("iterable", np.iterable), [[], "a"], [1], "an iterable"),
    ],
)
def test_allowed_values(allowed, good, bad, said):
    assert all(value in allowed for value in good)
    assert not any(value in allowed for value in bad)
    assert said in str(allowed)


def test_errors_say_what_was_given_and_what_is_allowed():
    with pytest.raises(InvalidParameterError, match="'way' parameter of Example must be") as raised:
        Example(way="wide")._validate_params()
    assert str(raised.value).endswith("""must be "far" or "near", but is 'wide'.""")
    assert isinstance(raised.value, ValueError)
    Example(size=None)._validate_params()


@pytest.mark.parametrize("kind", [Classification, Regression, Settings])
def test_every_parameter_says_whether_it_identifies_a_problem(kind):
    for name, it in parameters_of(kind).items():
        assert isinstance(it.identifies, bool), name
        assert it.accepts(it.default), name


def another(it):
    """A value that is allowed and not the default."""
    names = [name for some in it.allowed if isinstance(some, OneOf) for name in some.names]
    return next(v for v in (*names, 2.5, 7, False) if v != it.default and it.accepts(v))


@pytest.mark.parametrize("name", IDENTIFYING)
def test_checkpoints_are_for_one_value_of_what_identifies_a_problem(name, tmp_path):
    one, other = Settings(), Settings(**{name: another(IDENTIFYING[name])})
    for mine, theirs in ((one, other), (other, one)):
        Checkpoint(tmp_path / "saved", mine.identity()).write(0, {"alpha": np.zeros(3)})
        Checkpoint(tmp_path / "saved", mine.identity()).read(0)
        with pytest.raises(ValueError, match=f"is of another run: {name} was"):
            Checkpoint(tmp_path / "saved", theirs.identity()).read(0)


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
def test_trainings_refuse_checkpoints_of_others(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = (X[:, 0] > 0) * 1.0
    store = write_store(tmp_path / "store", X, y, block_bytes=500)
    how = {"memory_limit": 10_000, "random_state": 0, "tol": 0.1}
    kind(**how).fit(store, checkpoint=tmp_path / "saved")
    own = parameters_of(Classification if kind is LinearSVC else Regression)
    for name in (IDENTIFYING.keys() & own.keys()) - {"intercept"}:  # that is not free for blocks
        changed = kind(**how | {name: another(own[name])})
        with pytest.raises(ValueError, match=f"is of another run: {name} was"):
            changed.fit(store, checkpoint=tmp_path / "saved")
    kind(**how | {"max_iter": 5, "n_jobs": 2}).fit(store, checkpoint=tmp_path / "saved")


def test_a_checkpoint_without_a_parameter_is_for_its_default(tmp_path):
    facts = Settings().identity()
    older = {name: value for name, value in facts.items() if name != "multi_class"}
    Checkpoint(tmp_path / "saved", older).write(0, {"alpha": np.zeros(3)})
    Checkpoint(tmp_path / "saved", facts, facts).read(0)
    with pytest.raises(ValueError, match="multi_class was 'ovr'"):
        Checkpoint(tmp_path / "saved", facts | {"multi_class": "crammer_singer"}, facts).read(0)


def test_settings_do_not_change():
    settings = Settings(C=2.0)
    assert settings.but(C=3.0).C == 3.0
    with pytest.raises(AttributeError, match="do not change"):
        settings.C = 3.0
    assert settings.C == 2.0
