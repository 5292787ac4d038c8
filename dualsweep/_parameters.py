"""What a parameter is: its default, the values it may have, and its texts.

A class that inherits from `Parameters` declares its parameters as a dataclass declares fields, each
with `parameter`. It gets an ``__init__`` that takes them, a check of their values, and a docstring
that describes them. (Estimators cannot be dataclasses: Dask and others take those apart into their
fields, and lose what was fitted.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter as Argument
from inspect import Signature
from numbers import Integral, Real
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**how: bool) -> Callable[[type], type]:
        """Do nothing: only type checkers need it."""
        return lambda kind: kind


Default = TypeVar("Default")
WIDTH = 100  # of a docstring


class InvalidParameterError(ValueError, TypeError):
    """A parameter has a value that is not allowed; scikit-learn's is these two errors as well."""


def either(names: Iterable[str]) -> str:
    """Return names as people list them: a, b or c."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


@dataclass(frozen=True)
class OneOf:
    """One of some strings: a registry, to which users may add."""

    names: Collection[str]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and value in self.names

    def __str__(self) -> str:
        return either(f'"{name}"' for name in self.names)

    @property
    def kind(self) -> str:
        """The type, as docstrings show it."""
        names = ", ".join(f'"{name}"' for name in self.names)
        return f"{{{names}}}"


@dataclass(frozen=True)
class Number:
    """A finite number: at least `least`, at most `most`, and above `above`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    kind: ClassVar[str] = "float"
    noun: ClassVar[str] = "a number"
    type: ClassVar[type] = Real

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, self.type):
            return False
        number = int(value) if isinstance(value, Integral) else float(value)  # type: ignore[arg-type]
        return (
            abs(number) <= sys.float_info.max
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
        )

    def __str__(self) -> str:
        if self.above is not None:
            return f"{self.noun} above {self.above:.10g}"
        if self.most is None:
            return f"{self.noun} of at least {self.least:.10g}"
        if self.least is None:
            return f"{self.noun} of at most {self.most:.10g}"
        return f"{self.noun} between {self.least:.10g} and {self.most:.10g}"


class Whole(Number):
    """An integer, likewise."""

    kind = "int"
    noun = "an integer"
    type = Integral


@dataclass(frozen=True)
class Such:
    """A value that passes a test; docstrings and errors call it `kind`."""

    kind: str
    test: Callable[[Any], bool]

    def __contains__(self, value: object) -> bool:
        return self.test(value)

    def __str__(self) -> str:
        return f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}"


Allowed = OneOf | Number | Such


@dataclass(frozen=True)
class Parameter:
    """All that is known of a parameter."""

    default: Any
    allowed: tuple[Allowed | None, ...]  # its value is one of these
    text: str  # of docstrings: what it is, and when to change it
    # Whether two values mean two problems, or two ways to the solution: then neither goes on from
    # the other's checkpoint.
    identifies: bool
    flags: tuple[str, ...]  # of the command line; by default the name as in Python
    # Of the command line, ``{choices}`` for the allowed values; empty if it has no such option.
    help: str
    metavar: str | None  # the command line's word for the value

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the default, for models pickled before the parameter existed."""
        return self.default

    def accepts(self, value: object) -> bool:
        """Return whether a value is allowed."""
        return any(value is None if it is None else value in it for it in self.allowed)

    @property
    def what(self) -> str:
        """The allowed values, as errors list them."""
        return either(str(it) for it in self.allowed)

    def described(self, name: str) -> str:
        """Return the parameter's entry in a docstring."""
        kinds = dict.fromkeys(it.kind for it in self.allowed if it is not None)
        default = f'"{self.default}"' if isinstance(self.default, str) else f"{self.default!r}"
        text = indent(fill(self.text, WIDTH - 8, break_on_hyphens=False), "    ")
        return f"{name} : {either(kinds)}, default={default}\n{text}"


def parameter(
    default: Default,
    *allowed: Allowed | None,
    text: str,
    identifies: bool,
    flags: str = "",
    help: str = "",
    metavar: str | None = None,
) -> Default:
    """Declare a parameter of a class that inherits from `Parameters`; see `Parameter`.

    Type checkers take what is returned for the default.
    """
    named: Any = Parameter(default, allowed, text, identifies, tuple(flags.split()), help, metavar)
    return named  # type: ignore[no-any-return]


def parameters_of(kind: type[Parameters]) -> Mapping[str, Parameter]:
    """Return the parameters of a class by name, in the order of `Parameters._order`."""
    return kind._parameters


def _collect(kind: type[Parameters]) -> Mapping[str, Parameter]:
    found: dict[str, Parameter] = {}
    for base in reversed(kind.__mro__):
        found |= {name: it for name, it in vars(base).items() if isinstance(it, Parameter)}
        for name in vars(base).get("_without", ()):
            found.pop(name, None)
    order = {name: place for place, name in enumerate(kind._order)}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))


@dataclass_transform(kw_only_default=True, eq_default=False)
class Parameters:
    """Base of what has parameters, which are keywords of ``__init__`` and attributes.

    A subclass may leave out parameters of its bases: ``class A(B, without=("C",))``. They keep
    their defaults, but are not keywords.
    """

    _order: ClassVar[tuple[str, ...]] = ()  # others follow, in the order of their declaration
    _without: ClassVar[Collection[str]] = ()
    _parameters: ClassVar[Mapping[str, Parameter]] = {}  # see `parameters_of`
    _texts: ClassVar[dict[str, str]] = {}  # replace ``{name}`` in docstrings

    def __init_subclass__(cls, *, without: Collection[str] = (), **how: Any) -> None:
        super().__init_subclass__(**how)
        cls._without = without
        cls._parameters = parameters = _collect(cls)
        if cls.__init__ is object.__init__ or hasattr(cls.__init__, "__signature__"):  # not its own
            cls.__init__ = _init(parameters)  # type: ignore[method-assign]
            cls.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
        texts = {"parameters": "\n".join(it.described(name) for name, it in parameters.items())}
        for base in reversed(cls.__mro__):
            texts |= vars(base).get("_texts", {})
        for name, text in texts.items():
            if cls.__doc__:  # with python -OO there is none
                text = indent(text.strip(), "    ").lstrip()
                cls.__doc__ = cls.__doc__.replace(f"{{{name}}}", text)

    def _validate_params(self) -> None:
        """Raise `InvalidParameterError` if a parameter has a value that is not allowed."""
        for name, it in parameters_of(type(self)).items():
            value = getattr(self, name)
            if value is not it.default and not it.accepts(value):
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be {it.what}, but is "
                    f"{value!r}."
                )


def _init(parameters: Mapping[str, Parameter]) -> Callable[..., None]:
    """Return an ``__init__`` with these keywords."""

    def __init__(self: Parameters, **given: Any) -> None:  # noqa: N807
        for name in given.keys() - parameters:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}"
            )
        vars(self).update({name: it.default for name, it in parameters.items()} | given)

    arguments = [
        Argument(name, Argument.KEYWORD_ONLY, default=it.default) for name, it in parameters.items()
    ]
    own = Argument("self", Argument.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = Signature([own, *arguments])  # type: ignore[attr-defined]
    return __init__
