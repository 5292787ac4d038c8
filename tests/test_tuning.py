"""The constants that tests set: by one door, each by some test, and none inside a kernel."""

import ast
import re
from pathlib import Path

import dualsweep
from dualsweep import _tuning

TESTS, PACKAGE = Path(__file__).parent, Path(dualsweep.__file__).parent
CONSTANTS = {name for name in vars(_tuning) if name.isupper()}


def text_of(folder):
    return "\n".join(path.read_text() for path in folder.rglob("*.py") if path.name != "_tuning.py")


def test_tests_set_constants_by_one_door():
    set_otherwise = set(re.findall(r'setattr\([^()]*?\W([A-Z][A-Z_]+)"', text_of(TESTS)))
    assert set_otherwise == {"GROUPS", "MEMBERSHIP", "MEMINFO"}  # files that tell of the memory


def test_each_is_read_and_set():
    assert set(re.findall(r"\b_tuning\.([A-Z_]+)", text_of(PACKAGE))) == CONSTANTS
    tests = text_of(TESTS)
    assert all(re.search(rf'\b{name}( ?=|": )', tests) for name in CONSTANTS)


def test_no_kernel_reads_them():
    """It would have the values that it was compiled with."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "_tuning" in ast.unparse(node):
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                assert not re.search(r"\b(jit\w*|generic|implements|intrinsic)\b", decorators)
