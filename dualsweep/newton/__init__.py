"""Newton's method on the dual: semismooth Newton steps on the augmented Lagrangian.

With slack ``s = t - y Xw``, an anchor a and a penalty rho >= 0, the inner problem in w alone is

    phi(w) = 1/2 |w|^2 + sum_i max over b of  b s_i - conjugate_i(b) - rho (b - a_i)^2 / 2,

b between its bounds. With b_i the maximisers, phi is smooth:

    gradient  w - X'(y b),      generalised Hessian  I + X_J' diag(db_i / ds_i) X_J,

J the rows whose b_i moves with its slack, the free ones. The minimiser of phi is the proximal point
step ``a <- b`` on the dual (Rockafellar 1976; Li, Sun and Toh 2018 with semismooth Newton steps
inside). Each b is feasible, so each step has a dual bound. Smooth losses take rho = 0: their inner
problem is the primal itself, and there is no outer iteration.

With many classes a row has a slack and a dual variable per class, and b is a projection onto the
row's feasible set; see `dualsweep.kernels.newton_multiclass`.

`core` has the method, for one problem or several at once; `slacks` says what it asks of a backend.
"""
