"""The code in the pages runs: prompts answer what is shown, and commands end well."""

import ast
import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from dualsweep.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(pycon|console|python)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# What a page changes in the library itself is forgotten with the process.
IN_A_PROCESS = ROOT / "docs/how/extending.md"


def blocks(page):
    """The language, the text and the line of each block of code."""
    text = page.read_text()
    for fence in FENCE.finditer(text):
        yield fence[2], dedent(fence[3]), text.count("\n", 0, fence.start(3))


def run_page(page):
    """Run the prompts and commands of a page, one after the other, in the current directory."""
    names = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for language, text, line in blocks(page):
        if language == "pycon":
            example = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line)
            runner.run(example, clear_globs=False)
            names = example.globs
        elif language == "console":
            for command in re.findall(r"^\$ dualsweep (.*)$", text.replace("\\\n", ""), re.M):
                result = CliRunner().invoke(app, shlex.split(command))
                assert result.exit_code == 0, f"{page}: {command}\n{result.output}"
    assert not runner.failures, f"{runner.failures} of {runner.tries} prompts; see above"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if {"pycon", "console"} & {b[0] for b in blocks(page)}],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page != IN_A_PROCESS:
        run_page(page)
        return
    done = subprocess.run(
        [sys.executable, "-c", f"import test_pages as t; t.run_page(t.Path({str(page)!r}))"],
        env={"PYTHONPATH": f"{Path(__file__).parent}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_code_without_prompts_is_python():
    for page in PAGES:
        for language, text, line in blocks(page):
            if language == "python":
                try:
                    ast.parse(text)
                except SyntaxError as error:
                    pytest.fail(f"{page}, line {line + (error.lineno or 0)}: {error}")
