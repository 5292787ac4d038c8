"""Labels and weights become classes and costs."""

from __future__ import annotations

from numbers import Real

import numpy as np

from .._typing import Array, ClassWeight, Given

CLOSE = 4096  # how far whole numbers may lie apart that are counted instead of sorted
LEAST_COST = 1e-300  # less is no cost: its reciprocal overflows


def encode_labels(y: Array, sample_weight: Array | None) -> tuple[Array, Array]:
    """Return the classes that have weight, and the number of each row's class (-1: none).

    A row of weight 0 is as good as absent, so a class all of whose rows have weight 0 is no class.
    """
    present = None if sample_weight is None else sample_weight > 0
    offsets = offsets_of(y)
    if offsets is None:
        classes = np.unique(y if present is None else y[present])
        check_classes(classes)
        return classes, class_codes(y, classes)
    counts = np.bincount(offsets, present)
    found = np.flatnonzero(counts)
    classes = np.array([int(y.min()) + offset for offset in found.tolist()], y.dtype)
    check_classes(classes)
    codes = np.full(len(counts), -1)
    codes[found] = np.arange(len(found))
    return classes, codes[offsets]


def offsets_of(y: Array) -> Array | None:
    """Return the differences of labels to the smallest; None unless they are close whole numbers.

    These can be counted, which takes a quarter of the time of sorting (covtype).
    """
    if y.dtype.kind not in "biuf" or not len(y):
        return None
    low, high = y.min(), y.max()
    if not float(high) - float(low) < CLOSE:
        return None
    if y.dtype.kind == "f" and (np.trunc(y) != y).any():
        return None
    offsets: Array = np.subtract(y, low, dtype=np.int64, casting="unsafe")
    return offsets


def check_classes(classes: Array) -> None:
    """Raise ValueError unless these are at least two classes, not measurements."""
    bad = classes[:1] if classes.dtype.kind in "cSV" else classes[:0]
    if classes.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # NaN and infinity are no integers
            bad = classes[classes.astype(np.int64) != classes]
    if len(bad):
        raise ValueError(f"Labels must be integers or text, but y has {bad[0]}.")
    if len(classes) < 2:
        raise ValueError(
            f"Training needs at least 2 classes among the rows of positive weight, but found "
            f"{len(classes)} class{'es' * (len(classes) != 1)}: {classes.tolist()}."
        )


def class_codes(y: Array, classes: Array) -> Array:
    """Return the number of each row's class (-1: none)."""
    codes = np.searchsorted(classes, y)
    codes[codes == len(classes)] = 0
    codes[classes[codes] != y] = -1
    return codes


def count_classes(y: Array, sample_weight: Array | None) -> tuple[Array, Array]:
    """Return the classes of some rows that have weight, and how much."""
    present = slice(None) if sample_weight is None else sample_weight > 0
    classes, places = np.unique(y[present], return_inverse=True)
    weight = None if sample_weight is None else sample_weight[present]
    return classes, np.bincount(places, weight, len(classes))


def add_counts(counts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the classes of all rows, and how much weight they have, from those of parts of them.

    Raises ValueError unless they are at least two, not measurements.
    """
    found: dict[object, float] = {}
    for classes, mass in counts:
        for label, m in zip(classes.tolist(), mass.tolist(), strict=True):
            found[label] = found.get(label, 0.0) + m
    classes = np.unique(np.concatenate([classes for classes, _ in counts]))
    check_classes(classes)
    return classes, np.array([found[label] for label in classes.tolist()])


def class_costs(
    C: float, class_weight: ClassWeight, classes: Array, mass: Array
) -> tuple[ClassWeight, Array]:
    """Return `class_weight` by class, and the costs of all rows of each class together.

    Refuses costs that overflow or vanish, without a look at the rows.
    """
    if isinstance(class_weight, str):
        class_weight = dict(zip(classes.tolist(), balanced_weights(mass).tolist(), strict=True))
    codes = np.arange(len(classes))
    return class_weight, row_costs(C, class_weight, classes, codes, mass)


def balanced_weights(mass: Array) -> Array:
    """Return the weights with which classes that have so much weight weigh the same."""
    with np.errstate(over="ignore", invalid="ignore"):  # costs that are too large are refused
        return mass.sum() / (len(mass) * mass)


def row_costs(
    C: float,
    class_weight: ClassWeight,
    classes: Array,
    codes: Array,
    sample_weight: Array | None,
    all_rows: bool = True,
) -> Array:
    """Return ``C_i = C * sample_weight_i * class_weight[y_i]``.

    A class whose costs all vanish is refused, unless there are more rows than these.
    """
    if class_weight is None:
        per_class = np.ones(len(classes))
    elif isinstance(class_weight, str):  # "balanced", counted with weights: 2 is the row twice
        weight = None if sample_weight is None else sample_weight[codes >= 0]
        mass = np.bincount(codes[codes >= 0], weight, minlength=len(classes))
        per_class = balanced_weights(mass)
    else:
        missing = [label for label in classes.tolist() if label not in class_weight]
        if missing and len(class_weight) > len(classes) - len(missing):  # a slip of the pen
            raise ValueError(
                f"class_weight has weights for {list(class_weight)}, but none for {missing}; the "
                f"classes are {classes.tolist()}."
            )
        given = {label: _weight_of(label, weight) for label, weight in class_weight.items()}
        per_class = np.array([given.get(label, 1.0) for label in classes.tolist()])
        if not (np.isfinite(per_class) & (per_class >= 0)).all():
            raise ValueError(
                f"class_weight must not be negative, NaN or infinite, but is {class_weight!r}."
            )
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what is not finite is told
        if sample_weight is None:
            cost = (C * per_class)[codes]
        else:
            cost = C * sample_weight * per_class[codes]
        total = cost.sum() * len(classes)
    if not np.isfinite(total):
        raise ValueError(
            f"The costs C * sample_weight * class_weight are too large: C is {C:g}, the largest "
            f"cost {np.fmax.reduce(cost):g}, and their sum overflows. Use smaller numbers."
        )
    small = cost < LEAST_COST
    if small.any():
        cost[small] = 0.0
        if all_rows:
            _refuse_vanished(classes, codes, per_class, cost)
    return cost


def _weight_of(label: object, weight: Given) -> float:
    """Return the weight of a class as a float; ValueError if it is no number."""
    scalar = np.ndim(weight) == 0 and getattr(weight, "dtype", np.dtype("O")).kind in "biuf"
    if isinstance(weight, Real) or scalar:
        try:
            return float(weight)
        except OverflowError:  # an integer beyond float64
            pass
    raise ValueError(
        f"class_weight must have a number for each class, but for class {label!r} it has "
        f"{str(weight)[:40]!r}. Use for instance class_weight={{{label!r}: 2.0}}."
    )


def _refuse_vanished(classes: Array, codes: Array, per_class: Array, cost: Array) -> None:
    """Raise ValueError if a class that has weight has no costs, or none has."""
    costs = np.bincount(codes[codes >= 0], cost[codes >= 0], minlength=len(classes))
    vanished = classes[(costs == 0.0) & (per_class > 0.0)]
    if not costs.any():
        what = "are all"
    elif len(vanished):
        what = f"of class {vanished[0]} are"
    else:
        return
    raise ValueError(
        f"The costs C * sample_weight * class_weight {what} below {LEAST_COST:g}, which is too "
        "small to compute with. Use larger numbers."
    )
