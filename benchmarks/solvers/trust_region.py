import math

import numpy as np
from benchmark_utils import Iterative, Point

# A step is taken if the objective falls by ACCEPTED of what the model says. The radius shrinks or
# grows by these factors, and stays where the model is good to within POOR and GOOD.
ACCEPTED, POOR, GOOD = 1e-4, 0.25, 0.75
LEAST, LESS, MORE = 0.25, 0.5, 4.0
FORCING = 0.1  # conjugate gradients end when the residual is this part of the gradient
ROUNDING = 1e-12  # of the objective: a promise below it cannot be checked, and is believed


class Solver(Iterative):
    """Newton steps in a trust region, for squared hinge (TRON; Lin, Weng and Keerthi 2008).

    The Hessian is that of the rows with a loss, ``I + 2 C X_I' X_I``, and a step is found by
    conjugate gradients. The violation is the gradient's length, relative to the first; a step is a
    product with the Hessian, and a pass one with X or its transpose.
    """

    name = "trust_region"
    losses = ("squared_hinge",)

    def iterate(self, X, y):
        Z = X.multiply(y[:, None]).tocsr()
        w, steps, looks = np.zeros(X.shape[1]), 0, 1
        value, slack = self.value(Z, w)
        rows, gradient = self.derivative(Z, w, slack)
        first = radius = float(np.linalg.norm(gradient))
        while True:
            length = float(np.linalg.norm(gradient))
            yield Point(w, 2 * (looks + steps), steps, length / first if first else 0.0)

            step, residual, n_products = self.conjugate_gradients(rows, gradient, radius)
            steps, looks = steps + n_products, looks + 1
            promised = -0.5 * float(gradient @ step - step @ residual)
            new_value, new_slack = self.value(Z, w + step)
            gain = value - new_value if promised > ROUNDING * value else promised
            size, slope = float(np.linalg.norm(step)), float(gradient @ step)
            if looks == 2:
                radius = min(radius, size)
            # Where the parabola through both values is smallest, as a part of the step.
            curvature = -gain - slope
            best = MORE if curvature <= 0.0 else max(LEAST, -0.5 * slope / curvature)
            if gain < ACCEPTED * promised:
                radius = min(max(best, LEAST) * size, LESS * radius)
            elif gain < POOR * promised:
                radius = max(LEAST * radius, min(best * size, LESS * radius))
            elif gain < GOOD * promised:
                radius = max(LEAST * radius, min(best * size, MORE * radius))
            else:
                radius = max(radius, min(best * size, MORE * radius))
            if gain >= ACCEPTED * promised:
                w, value, slack = w + step, new_value, new_slack
                rows, gradient = self.derivative(Z, w, slack)

    def value(self, Z, w):
        """Return the objective, and how much each row lacks of its margin."""
        slack = np.maximum(0.0, 1.0 - Z @ w)
        return 0.5 * float(w @ w) + self.C * float(slack @ slack), slack

    def derivative(self, Z, w, slack):
        """Return the rows with a loss, and the gradient."""
        rows = Z[slack > 0.0]
        return rows, w - 2.0 * self.C * (rows.T @ slack[slack > 0.0])

    def conjugate_gradients(self, rows, gradient, radius):
        """Return a step within the radius, what is left of the gradient, and the products it took.

        The residual is minus the gradient of the model at the step.
        """
        step, residual = np.zeros_like(gradient), -gradient
        direction, square = residual, float(residual @ residual)
        enough, n_products = FORCING * math.sqrt(square), 0
        while math.sqrt(square) > enough and n_products < len(gradient):
            n_products += 1
            product = direction + 2.0 * self.C * (rows.T @ (rows @ direction))
            length = square / float(direction @ product)
            if np.linalg.norm(step + length * direction) > radius:
                # To the border: |step + length direction| = radius.
                a, b = float(direction @ direction), float(step @ direction)
                c = radius**2 - float(step @ step)
                root = math.sqrt(b * b + a * c)
                length = c / (b + root) if b >= 0.0 else (root - b) / a
                return step + length * direction, residual - length * product, n_products
            step, residual = step + length * direction, residual - length * product
            square, before = float(residual @ residual), square
            direction = residual + (square / before) * direction
        return step, residual, n_products
