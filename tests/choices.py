"""The parameters with a list of values, and these values."""

from dualsweep._parameters import parameters_of
from dualsweep.training.parameters import Classification

CHOICES = {
    name: parameters_of(Classification)[name].allowed[0].names
    for name in ("loss", "multi_class", "solver", "schedule", "intercept")
}
