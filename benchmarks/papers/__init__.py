"""What the papers measured, measured here: one module per paper, and what they share.

`tracing` runs a system on a `Task` and writes a CSV row per checkpoint: processor seconds, passes,
steps, the objective and the test accuracy. `pages` reads them back relative to the certified
optimum, draws curves, and fills the tables of a page in docs/papers/. A paper's module is then

    SYSTEMS = {"DCDL1": ("sweeps", {"schedule": "permuted"}), "Pegasos": ("pegasos", {})}
    OUT = tracing.OUTPUTS / "paper-dcd.csv"

    task = tracing.Task("a9a", "hinge", C=1.0, fit_intercept=False)
    tracing.measure(OUT, [task], SYSTEMS, cap=10.0, floor=1e-6)
    frame = pages.read(OUT)                         # adds `error` and `difference`
    pages.draw(frame, "seconds", "error", path)     # a panel per data set and loss
    pages.fill(page, "table-2", ratios.markdown(pages.times(frame, target=0.01)))
    pages.fill(page, "machine", ratios.about(OUT))

A system is a benchopt solver of benchmarks/solvers/, by its name and parameters. If it is an
`Iterative`, its run is looked at as it goes, with the clock standing still; any other contender
climbs down its ladder of tolerances, a checkpoint per fit, as in `ratios`. The optimum is the best
value known, that of a long certified fit among them, which `measure` makes once for each task.
What a file holds is not measured again; runs take `cap` seconds at most, and what they did not
reach by then is missing. Run with benchmarks/ on the path: `PYTHONPATH=benchmarks python -m
papers.dcd --help`, or `make paper-dcd`.
"""
