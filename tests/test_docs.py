"""Documents: the tests they name exist."""

import ast
import re
from pathlib import Path

import pytest

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
