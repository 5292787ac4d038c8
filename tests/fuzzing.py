"""What the fuzzers of files have in common."""

import contextlib
import inspect
from io import BytesIO

import atheris
import numpy as np

from dualsweep.problems.result import HISTORY_DTYPE


def instrument(*modules):
    """Let libFuzzer see which branches of these modules are taken.

    As they are imported, `atheris.instrument_imports` would instrument kernels too, for numba.
    """
    for module in modules:
        for item in [module, *(item for item in vars(module).values() if inspect.isclass(item))]:
            for function in vars(item).values():
                function = inspect.unwrap(function) if callable(function) else function
                if inspect.isfunction(function) and function.__module__ == module.__name__:
                    atheris.instrument_func(function)


def patched(content, choices):
    """Content with some bytes replaced, taken away or put in."""
    content = bytearray(content)
    for _ in range(choices.ConsumeIntInRange(0, 4)):
        at = choices.ConsumeIntInRange(0, len(content))
        gone = choices.ConsumeIntInRange(0, 8)
        content[at : at + gone] = choices.ConsumeBytes(choices.ConsumeIntInRange(0, 8))
    return bytes(content)


def npy(array):
    """The content of a file of NumPy."""
    file = BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


TYPES = ["<f8", ">f4", "<i8", "<i4", "<u8", "?", "<U3", "S2", "<c16", "M8[s]", "V4", HISTORY_DTYPE]
NUMBERS = [0, 1, -1, 2, 3, 7, 150, 2**31, 2**53, 2**62, -(2**63), 1e300, np.nan, np.inf]


def any_array(choices):
    """A small array of any type and shape, with numbers that are somewhere in the way."""
    dtype = np.dtype(TYPES[choices.ConsumeIntInRange(0, len(TYPES) - 1)])
    shape = [choices.ConsumeIntInRange(0, 5) for _ in range(choices.ConsumeIntInRange(0, 3))]
    array = np.zeros(shape, dtype)
    for place in range(array.size):
        number = NUMBERS[choices.ConsumeIntInRange(0, len(NUMBERS) - 1)]
        with contextlib.suppress(TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            array.flat[place] = np.array(number).astype(dtype)
    return array


def names(error, path):
    """Make sure that an error tells the file."""
    if str(path) not in str(error):
        raise AssertionError(f"does not name {path}") from error
