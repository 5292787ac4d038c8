"""Documents: the tests, files and functions they name exist, and call each other as they say."""

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest
from choices import CHOICES

import dualsweep
from dualsweep import LinearSVC
from dualsweep.datasets import make_text_like
from dualsweep.estimators import LinearSVCCV, compare_multiclass
from dualsweep.problems import binary

ROOT = Path(__file__).parent.parent
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/promises.md").read_text())


def test_promises_name_tests():
    assert len(NAMED) > 30


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_test_that_a_promise_names_is_there(path, name):
    functions = [
        node.name
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert (name in functions) if name else functions


def test_relative_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_way_from_fit_to_the_kernel_is_as_drawn(monkeypatch):
    drawn = re.findall(
        r"^ {4}([a-z/]+\.py) +([\w.]+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    found = []

    def spy(*arguments):
        if not found:
            frame = sys._getframe(1)
            while frame is not None:
                path = Path(frame.f_code.co_filename)
                if package in path.parents:
                    found.append((path.relative_to(package).as_posix(), frame.f_code.co_name))
                frame = frame.f_back
        return sweep(*arguments)

    package, sweep = Path(dualsweep.__file__).parent, binary.sweep
    monkeypatch.setattr(binary, "sweep", spy)
    LinearSVC(random_state=0).fit(*make_text_like(300, 3000, random_state=0))
    *python, kernel = [(path, name.rpartition(".")[2]) for path, name in drawn]
    assert found[::-1] == python
    assert len(python) <= 7
    assert kernel == ("kernels/binary.py", "sweep")


def test_the_version_is_the_same_everywhere():
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    shown = re.search(r"version = {(.+)}", (ROOT / "docs/citing.md").read_text())[1]
    assert version == cited == shown == dualsweep.__version__


def test_no_module_is_long():
    for path in Path(dualsweep.__file__).parent.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 600, path


@pytest.mark.parametrize("documented", [LinearSVC, LinearSVCCV, compare_multiclass])
def test_docstrings_list_what_the_registries_have(documented):
    for name in CHOICES.keys() & inspect.signature(documented).parameters:
        values = re.search(rf"^ +{name} : {{(.*?)}}, default", documented.__doc__, re.MULTILINE)
        assert values[1] == ", ".join(f'"{value}"' for value in CHOICES[name])
