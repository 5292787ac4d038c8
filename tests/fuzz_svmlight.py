"""Feed the svmlight reader arbitrary bytes: no crash, no hang, and what the naive parser says.

Not part of the test run. ``make fuzz`` gives it ten minutes; libFuzzer's options work, for instance
``python tests/fuzz_svmlight.py -max_total_time=60``. A failure leaves its input in ``crash-*``.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

# Compiled kernels tell nothing about coverage; the naive parser makes the same distinctions.
with atheris.instrument_imports(include=["naive"]):
    from naive import parse_svmlight
    from test_svmlight import FLOATS, PIECES, assert_as_naive

    from dualsweep import _tuning
    from dualsweep.io import load_svmlight

COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")


def text(choices, pieces):
    """Bytes as they come, or some of them standing for pieces of svmlight text."""
    if not pieces:
        return choices
    return b"".join(PIECES[c] if c < len(PIECES) else bytes([c]) for c in choices)


def check(path, data):
    if not data:
        return
    multilabel, one_based, threads, tiny, pieces, narrow = (data[0] >> bit & 1 for bit in range(6))
    _tuning.TEXT_CHUNK = 16 if tiny else 1 << 20
    content = text(data[1:], pieces)
    path.write_bytes(content)
    options = {"multilabel": bool(multilabel), "one_based": bool(one_based)}
    try:
        expected = parse_svmlight(content, **options)
    except ValueError:
        expected = None
    dtype = FLOATS[narrow]
    try:
        result = load_svmlight(
            path,
            dtype=dtype,
            multilabel=options["multilabel"],
            zero_based=not one_based,
            n_jobs=2 if threads else 1,
        )
    except ValueError as error:
        if expected is not None and not content.startswith(COMPRESSED):
            raise AssertionError(f"refused, but is svmlight: {content!r}") from error
        return
    if not content.startswith(COMPRESSED):
        if expected is None:
            raise AssertionError(f"taken, but is not svmlight: {content!r}")
        assert_as_naive(result, content, dtype, **options)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        path = Path(folder, "data.svm")
        for options in range(64):  # compiles whatever has to be, which would look like a hang
            check(path, bytes([options]) + b"1 1:1\n")
        atheris.Setup([*sys.argv, "-timeout=20"], lambda data: check(path, data))
        atheris.Fuzz()
