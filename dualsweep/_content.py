"""Digests of what a kernel is made of: its code, and all that its code refers to.

Comments, docstrings, line numbers, and the place and time of a file do not count. Functions that a
kernel calls in other modules do, and so do the values of constants.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from types import CellType, CodeType, FunctionType, ModuleType

import numpy as np

from ._numba import options_of

_PACKAGE = __name__.partition(".")[0]

# The digest of each function's own code, and the functions that it refers to. Kernels share them:
# the 15 kernels of a first fit, 74 functions in all, take 4 ms.
_known: dict[FunctionType, tuple[bytes, list[FunctionType]]] = {}


def digest(function: Callable[..., object], options: dict[str, object]) -> bytes:
    """Return the digest of a Python function and all functions of its package that it reaches.

    `options` are those it is compiled with.
    """
    assert isinstance(function, FunctionType)
    packages = _PACKAGE, function.__module__.partition(".")[0]
    contents = [_Reader(packages).value(options).encode()]
    reached = [function]
    for current in reached:  # which grows meanwhile
        if current not in _known:
            reader = _Reader(packages)
            text = reader.function(current)
            _known[current] = sha256(text.encode("utf-8", "surrogatepass")).digest(), reader.uses
        content, uses = _known[current]
        contents.append(content)
        reached.extend(used for used in dict.fromkeys(uses) if used not in reached)
    return sha256(b"".join(sorted(contents))).digest()


def forget() -> None:
    """Read all functions anew: something has been added to what one of them refers to."""
    _known.clear()


class _Reader:
    """Describes values as text, and notes the functions among them instead of entering them."""

    def __init__(self, packages: tuple[str, str]) -> None:
        self.packages = packages
        self.uses: list[FunctionType] = []
        self._entered: set[int] = set()  # classes, which can refer to themselves

    def function(self, function: FunctionType) -> str:
        """Describe a function itself."""
        code, space = function.__code__, function.__globals__
        names = sorted(set(_names(code)))
        parts = [self._code(code, function.__doc__)]
        for name in names:
            if name in space:
                value = space[name]
                parts.append(f"{name}={self.value(value)}")
                if isinstance(value, ModuleType) and self._is_ours(value.__name__):
                    members = (member for member in names if hasattr(value, member))
                    parts += [f"{name}.{m}={self.value(getattr(value, m))}" for m in members]
        attributes = {k: v for k, v in vars(function).items() if k != "__wrapped__"}
        given = function.__defaults__, function.__kwdefaults__, function.__closure__, attributes
        parts += map(self.value, given)
        return "\n".join(parts)

    def value(self, value: object) -> str:
        """Describe what a function refers to."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{type(value).__qualname__} {value!r}"
        if isinstance(value, tuple | list):
            return f"{type(value).__qualname__}({', '.join(map(self.value, value))})"
        if isinstance(value, set | frozenset):
            return f"set({', '.join(sorted(map(self.value, value)))})"
        if isinstance(value, dict):
            pairs = (f"{self.value(key)}: {self.value(value[key])}" for key in value)
            return f"dict({', '.join(sorted(pairs))})"
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, CellType):
            try:
                return f"cell {self.value(value.cell_contents)}"
            except ValueError:
                return "empty cell"
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, np.ndarray):
            data = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return f"array {value.dtype} {value.shape} {data}"
        if isinstance(value, FunctionType):
            if self._is_ours(value.__module__):
                self.uses.append(value)
            return f"function {value.__module__}.{value.__qualname__}"
        made_of = getattr(value, "__wrapped__", None)  # by a kernel or an intrinsic
        if made_of is not None:
            return f"compiled {self.value(options_of(value))} {self.value(made_of)}"
        text = repr(value)
        # An address differs in each process: what has no other description is new each time.
        return text if " at 0x" not in text else os.urandom(16).hex()

    def _code(self, code: CodeType, docstring: str | None = None) -> str:
        variables = code.co_varnames, code.co_freevars, code.co_cellvars
        constants = (None if value == docstring else value for value in code.co_consts)
        described = ", ".join(map(self.value, constants))
        # What is caught where is in no instruction.
        caught = getattr(code, "co_exceptiontable", b"")
        arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
        head = arguments, code.co_names, variables, code.co_flags
        return f"code {head} {code.co_code.hex()} {caught.hex()} [{described}]"

    def _class(self, kind: type) -> str:
        name = f"class {kind.__module__}.{kind.__qualname__}"
        if not self._is_ours(kind.__module__) or id(kind) in self._entered:
            return name
        self._entered.add(id(kind))
        members = [self.value(base) for base in kind.__bases__]
        members.append(self.value(getattr(kind, "_fields", None)))
        for key, member in sorted(vars(kind).items()):
            member = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(member, FunctionType):
                members.append(f"{key}={self.value(member)}")
        return f"{name}({', '.join(members)})"

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
