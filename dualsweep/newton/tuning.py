"""The constants of Newton's method, and why backends differ."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tuning:
    """The constants of one backend; the defaults are for problems in memory with few weights.

    Steps of the hinge loss to 1e-6 on covtype at C = 1, 100 and 1000: 27, 34 and 49; 145 on w8a at
    C = 100. With a `rho_factor` of 5 and an `inner_gap` of 0.03 instead: 23, 41, 48 and 187.
    """

    # Outer iterations of losses that are not smooth: rho starts at first_rho over the mean cost,
    # times the size of a target (1 for classes), and is divided by rho_factor each time. An inner
    # problem counts as solved when its gap is inner_gap of the whole gap.
    first_rho: float = 10.0
    rho_factor: float = 3.0
    inner_gap: float = 0.1
    # There is no other anchor where all but this part of tol is the inner problem's: its solution
    # then proves tol. Before that, w is much better than the weights of b, which are what a
    # certificate is about. mnist, Crammer-Singer at C = 1: 46 steps instead of 86.
    last_anchor: float = 0.3

    # A line search ends when this part of the first slope is left.
    line_search: float = 0.01
    line_steps: int = 100

    # Conjugate gradients end with this part of the gradient; at the last anchor with the second.
    # `superlinear`: or with as much as the gradient is large, if that is less.
    forcing: float = 0.01
    forcing_last: float = 0.01
    superlinear: bool = True
    cg_steps: int = 200
    cg_leave: float = 0.7  # problems that are solved leave when at most this part of several is not

    # A certificate is tried when the gap between P(w) and the dual of b is this part of tol: the
    # model is the w of b, whose primal is a little larger than that of the w Newton works on. It
    # is tried again when the inner gap has fallen to this part of what it was.
    try_at: float = 0.5
    retry: float = 0.1

    max_steps: int = 500

    # Problems that are done leave when at most this part of several is not.
    leave: float = 1.0


DIRECT = Tuning()

# Several classes as one problem: letter, C = 10, takes 40 steps to 1e-3 instead of 47, in 4/5 of
# the time.
MULTICLASS = replace(DIRECT, first_rho=0.5)

# Conjugate gradients with the blocks of single classes as preconditioner: they are the fewer the
# less the problem changes from one step to the next. mnist, Crammer-Singer at C = 1 and 10: 360 and
# 599 in 45 and 67 steps; with a rho_factor of 2 and an inner_gap of 0.7, 515 and 1045 in 57 and 93.
# mnist, C = 1, Crammer-Singer and Weston-Watkins: 11.7 and 8.1 s on one core; with a forcing of 0.2
# and 0.01 12.4 and 9.5.
BLOCKS = Tuning(
    first_rho=5.0, rho_factor=1.3, inner_gap=0.8, forcing=0.3, forcing_last=0.05, superlinear=False
)

# The multinomial loss is smooth: the steps are Newton's own, and few.
SOFTMAX = replace(DIRECT, forcing_last=0.1)

# Rows in partitions: a product with the Hessian is a round.
PARTITIONS = replace(DIRECT, forcing=0.1, forcing_last=0.1)
PARTITIONS_MULTICLASS = replace(PARTITIONS, first_rho=MULTICLASS.first_rho)

# A device, on which conjugate gradients take most of the time and all problems step together. They
# take the longer the smaller rho is, so it falls less: products with the Hessian to a gap of 1e-6,
# 2,000 x 200 pixels of mnist at C = 1, hinge / Weston-Watkins / Crammer-Singer: 771 / 2888 / 3332;
# with a factor of 1.5, 965 / 3525 / 4291, of 2.5, 1489 / > 6494 / > 6944. The certificate is about
# w itself, so it is tried later and more often.
DEVICE = Tuning(
    rho_factor=1.2,
    inner_gap=0.3,
    last_anchor=0.0,
    line_search=0.05,
    line_steps=30,
    forcing=0.2,
    forcing_last=0.2,
    superlinear=False,
    cg_steps=300,
    try_at=0.95,
    retry=0.7,
    leave=0.8,
)
DEVICE_MULTICLASS = replace(DEVICE, first_rho=MULTICLASS.first_rho)

# Conjugate gradients with factors of the Hessian's blocks: factors are made anew when this many
# steps were needed. On two cores, with 12 instead of 8, mnist at C = 1 takes 4.8 instead of 5.7 s
# (Crammer-Singer) and 3.9 both (Weston-Watkins), at C = 10 Crammer-Singer 8.7 instead of 9.8.
BLOCKS_WORTH = 12
