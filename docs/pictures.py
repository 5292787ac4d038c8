"""Draw docs/certificate.svg: python docs/pictures.py."""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from dualsweep import LinearSVC
from dualsweep.datasets import make_text_like

EPOCHS = range(1, 11)
warnings.simplefilter("ignore", ConvergenceWarning)


def draw_certificate() -> None:
    """Draw primal and dual objective after each epoch of a fit, and the band between them."""
    X, y = make_text_like(20_000, 10_000, random_state=0)
    params = {"loss": "hinge", "solver": "sweep", "schedule": "permuted", "random_state": 0}
    models = [LinearSVC(max_iter=n, tol=1e-9, **params).fit(X, y) for n in EPOCHS]
    best = LinearSVC(tol=1e-6, **params).fit(X, y).primal_objective_
    primal = [model.primal_objective_ / best for model in models]
    dual = [model.dual_objective_ / best for model in models]

    plt.rcParams.update({"font.size": 12, "svg.hashsalt": "dualsweep", "svg.fonttype": "none"})
    figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
    ax.fill_between(EPOCHS, dual, primal, color="0.88")
    ax.plot(EPOCHS, primal, "o-", color="#1f5a8a", label="P, the objective of the model so far")
    ax.axhline(
        1, color="0.3", linestyle="--", label="P*, the best there is, which nobody knows yet"
    )
    ax.plot(EPOCHS, dual, "s-", color="#b3541e", label="D, which no model's objective is below")
    arrow = {"arrowstyle": "<->", "color": "0.2"}
    ax.annotate("", (2, primal[1]), (2, dual[1]), arrowprops=arrow)
    ax.annotate(
        f"after two sweeps P - D is {(primal[1] - dual[1]) / primal[1]:.0%} of P:\n"
        "so the model is at most that far above P*",
        (2, 0.9),
        (2.6, 0.66),
        arrowprops={"arrowstyle": "-", "color": "0.5"},
    )
    ax.set(xlabel="Sweeps over the rows", ylabel="Objective / P*", xticks=list(EPOCHS))
    ax.legend(loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parent / "certificate.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw_certificate()
