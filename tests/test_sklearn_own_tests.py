"""scikit-learn's tests of LinearSVC and LinearSVR, from the installed package, run on ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn.svm

# What cannot pass, and why. Each is run, and has to fail, so that the list stays true.
EXCEPTIONS = {
    "test_linearsvc_parameters": "penalty and dual: we train the dual of the l2 penalty, always",
    "test_linearsvc": "penalty='l1' and dual",
    "test_dense_liblinear_intercept_handling": "penalty='l1' and dual",
    "test_linear_svm_convergence_warnings": "expects Liblinear's words; ours give the gap",
    "test_linearsvm_liblinear_sample_weight": "penalty and dual",
}


def run(*selection: str) -> dict[str, set[str]]:
    """Run tests of that file with our classes in it; return which passed and which failed."""
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-p", "ours_in_sklearn", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-c", os.devnull, "--rootdir", str(here), "-rA", "-q"]
    command += ["--pyargs", "sklearn.svm.tests.test_svm", *selection]
    environment = {**os.environ, "PYTHONPATH": str(here)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) .*::(\w+)", done.stdout, re.MULTILINE)
    assert outcomes, done.stdout + done.stderr
    return {word: {name for w, name in outcomes if w == word} for word in ("PASSED", "FAILED")}


def about_ours() -> list[str]:
    """Return the names of their tests whose source or parameters name either."""
    source = Path(sklearn.svm.__file__).with_name("tests").joinpath("test_svm.py").read_text()
    blocks = re.split(r"\n(?=@pytest|def )", source)
    names, marks = [], ""
    for block in blocks:  # decorators belong to the function that follows
        marks += block
        if found := re.match(r"def (test_\w+)", block):
            if re.search(r"\bLinearSV[CR]\b", marks):
                names.append(found[1])
            marks = ""
        elif not block.startswith("@"):
            marks = ""
    return names


def test_their_tests_pass():
    names = about_ours()
    assert len(names) > 16
    assert set(names) >= set(EXCEPTIONS)
    chosen = [name for name in names if name not in EXCEPTIONS]
    outcome = run("-k", " or ".join(chosen))
    assert outcome["FAILED"] == set()
    assert outcome["PASSED"] >= set(chosen)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_exceptions_are_needed(name):
    outcome = run("-k", f"{name} and not {name}_")
    assert name in outcome["FAILED"]
