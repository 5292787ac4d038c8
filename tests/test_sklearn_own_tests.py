"""scikit-learn's tests of estimators that ours replace, from the installed package, run on ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

HERE = Path(__file__).parent

# What cannot pass, and why. Each is run, and has to fail, so that the lists stay true.
OF_MARGINS = {
    "test_linearsvc_parameters": "penalty and dual: we train the dual of the l2 penalty, always",
    "test_linearsvc": "penalty='l1' and dual",
    "test_dense_liblinear_intercept_handling": "penalty='l1' and dual",
    "test_linear_svm_convergence_warnings": "expects Liblinear's words; ours give the gap",
    "test_linearsvm_liblinear_sample_weight": "penalty and dual",
}
L1, NONE = "the l1 penalty and the elastic net", "no penalty"
SOLVERS = "what some of their solvers refuse; here a name of theirs chooses nothing"
NUMBER = "n_iter_ is a number here, as LinearSVC has it"
DEPRECATED = "warns of their own deprecations"
OF_PROBABILITIES = {
    "test_logreg_l1": L1,
    "test_elastic_net_coeffs": L1,
    "test_elastic_net_l1_l2_equivalence": L1,
    "test_elastic_net_vs_l1_l2": L1,
    "test_elastic_net_versus_sgd": L1,
    "test_LogisticRegression_elastic_net_objective": L1,
    "test_LogisticRegressionCV_GridSearchCV_elastic_net": L1,
    "test_l1_ratio_non_elasticnet": L1,
    "test_scores_attribute_layout_elasticnet": L1,
    "test_saga_vs_liblinear": L1,
    "test_liblinear_not_stuck": L1,
    "test_logisticregression_liblinear_sample_weight": L1,
    "test_sample_and_class_weight_equivalence_liblinear": L1,
    "test_lr_penalty_l1ratio_incompatible": L1,
    "test_logistic_regression_cv_refit": L1,
    "test_penalty_none": NONE,
    "test_c_inf_no_warning": NONE,
    "test_logistic_regression_solvers_multiclass_unpenalized": NONE,
    "test_check_solver_option": SOLVERS,
    "test_liblinear_multiclass_raises": SOLVERS,
    "test_liblinear_with_large_values": SOLVERS,
    "test_large_sparse_matrix": SOLVERS,
    "test_logistic_regression_callback_support_warning": SOLVERS,
    "test_max_iter": "their words; ours give the gap",
    "test_n_iter": NUMBER,
    "test_newton_cholesky_fallback_to_lbfgs": NUMBER,
    "test_logistic_regression_callback_fitted_estimator": NUMBER,
    "test_logistic_regression_callback_support": "lbfgs has an epoch that does nothing",
    "test_penalty_deprecated": DEPRECATED,
    "test_l1_ratio_None_deprecated": DEPRECATED,
    "test_logisticregression_warns_with_n_jobs": DEPRECATED,
    "test_dtype_match": "weights are float64, whatever rows are",
    "test_zero_max_iter": "before the first step, free intercepts are the best for weights of 0",
    "test_warm_start_newton_solver": "starts from dual variables, whose weights are not the last",
    "test_liblinear_dual_random_state": "expects two seeds to give models that differ by 1e-6",
    "test_consistency_path": "four digits; tol=1e-5 is a gap here, and promises two",
    "test_logistic_cv": "six digits of their LogisticRegressionCV, of tol=1e-4",
    "test_logistic_cv_multinomial_score": "passes our parameters to a private function of theirs",
    "test_multinomial_logistic_regression_string_inputs": "a class of weight 0 has no best free "
    "intercept, which we refuse",
}
SUITES = {
    "svm.tests.test_svm": ("LinearSV[CR]", 16, OF_MARGINS),
    "linear_model.tests.test_logistic": ("LogisticRegression", 60, OF_PROBABILITIES),
}


def run(module: str, names: list[str]) -> dict[str, set[str]]:
    """Run tests of a file with our classes in it; return which passed and which failed."""
    command = [sys.executable, "-m", "pytest", "-p", "ours_in_sklearn", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-c", os.devnull, "--rootdir", str(HERE), "-rA", "-q"]
    command += ["--tb=no", "--pyargs", f"sklearn.{module}", "-k", " or ".join(names)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) .*?::(\w+)", done.stdout, re.MULTILINE)
    assert outcomes, done.stdout + done.stderr
    chosen = [(word, name) for word, name in outcomes if name in names]
    return {word: {name for w, name in chosen if w == word} for word in ("PASSED", "FAILED")}


def about_ours(module: str, classes: str) -> list[str]:
    """Return the names of their tests whose source or parameters name one of these classes.

    Without those of arrays of the array API, of which test_device.py has ours.
    """
    path = Path(sklearn.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    names, marks = [], ""
    for block in re.split(r"\n(?=@pytest|def )", path.read_text()):
        marks += block  # decorators belong to the function that follows
        if found := re.match(r"def (test_\w+)", block):
            if re.search(rf"\b{classes}\b", marks) and "array_api" not in found[1]:
                names.append(found[1])
            marks = ""
        elif not block.startswith("@"):
            marks = ""
    return names


@pytest.mark.parametrize("module", SUITES)
def test_their_tests_pass_but_for_the_exceptions(module):
    classes, least, exceptions = SUITES[module]
    names = about_ours(module, classes)
    assert len(names) > least
    assert set(names) >= set(exceptions)
    outcome = run(module, names)
    assert outcome["FAILED"] == set(exceptions)
    assert outcome["PASSED"] >= set(names) - set(exceptions)
