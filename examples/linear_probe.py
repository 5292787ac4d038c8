"""A linear probe on embeddings: torch tensors in, C by cross-validation, predictions out.

    python examples/linear_probe.py --rows 200000 --columns 768 --classes 100
    python examples/linear_probe.py --probabilities

Everything with a number per row and column, or per row and class, stays on the device: embeddings,
scores, dual variables and predictions. What comes to the host are the labels, the predicted
labels of each fold, which scikit-learn's scorers compare, and the results. Without a CUDA device it
runs on the CPU, by the same code.
"""

import argparse
import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # for tensors in host memory, see below

import torch
from sklearn import config_context

from dualsweep import LinearSVCCV, LogisticRegressionCV


def embeddings(n_rows, n_columns, n_classes, device, seed=0):
    """Return rows of unit length around a mean per class, and their classes."""
    generator = torch.Generator(device=device).manual_seed(seed)
    scale = torch.arange(1, n_columns + 1, device=device) ** -0.5
    means = torch.randn(n_classes, n_columns, generator=generator, device=device)
    labels = torch.randint(n_classes, (n_rows,), generator=generator, device=device)
    noise = torch.randn(n_rows, n_columns, generator=generator, device=device)
    rows = (0.5 * means[labels] + noise) * scale
    return rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True), labels


def probe(X, y, X_test, y_test, Cs=(0.01, 0.1, 1.0, 10.0)):
    """Choose C, and train on all rows with it; return the model and its accuracy on the test rows.

    The loss is the squared hinge, of one class versus the rest, which is the quickest to train.
    """
    model = LinearSVCCV(Cs=Cs, cv=3, tol_search=1e-2, tol=1e-3, random_state=0).fit(X, y)
    predicted = model.predict(X_test)  # a tensor, where X_test is
    accuracy = float((predicted == y_test).float().mean())
    return model, accuracy


def probe_with_probabilities(X, y, X_test, y_test, Cs=(0.1, 1.0, 10.0, 100.0)):
    """Choose C by the log loss, and train with it; return the model, accuracy and log loss.

    It is multinomial logistic regression. On a device its intercepts have to be penalised.
    """
    search = {"cv": 3, "scoring": "neg_log_loss", "tol_search": 1e-2}
    model = LogisticRegressionCV(Cs=Cs, tol=1e-3, intercept="penalized", random_state=0, **search)
    logs = model.fit(X, y).predict_log_proba(X_test)  # a tensor, where X_test is
    classes = torch.as_tensor(model.classes_, device=logs.device)
    accuracy = float((classes[logs.argmax(dim=1)] == y_test).float().mean())
    own = torch.searchsorted(classes, y_test)
    return model, accuracy, -float(logs[torch.arange(len(logs), device=logs.device), own].mean())


def main(arguments=None):
    """Make embeddings, probe them, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--probabilities", action="store_true", help="of logistic regression")
    options = parser.parse_args(arguments)
    X, y = embeddings(options.rows, options.columns, options.classes, options.device)
    n = int(0.8 * len(X))
    # Tensors on a CUDA device are trained on there in any case. Those in host memory become NumPy
    # arrays, as everywhere in scikit-learn, unless array_api_dispatch says to keep them.
    with config_context(array_api_dispatch=options.device == "cpu"):
        data, log_loss = (X[:n], y[:n], X[n:], y[n:]), None
        if options.probabilities:
            model, accuracy, log_loss = probe_with_probabilities(*data)
        else:
            model, accuracy = probe(*data)
    print(f"C = {model.C_:g}, coefficients of shape {tuple(model.coef_.shape)} on "
          f"{model.coef_.device}")  # fmt: skip
    print(f"The objective is at most {model.relative_gap_:.1e} above the optimum, relatively.")
    print(f"Accuracy on {len(X) - n} other rows: {accuracy:.3f}")
    if log_loss is not None:
        print(f"Log loss on these: {log_loss:.3f}")
    return model, accuracy


if __name__ == "__main__":
    main()
