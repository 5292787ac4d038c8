"""How work is cut up, and when a method takes over: the constants that tests set.

Code reads them where it needs them, as ``_tuning.NAME``, so that the fixture `tuned` of the tests
can set any of them, and is the only way to. They hold for this process. Kernels get them as
arguments: a constant is compiled into what reads it.
"""

from __future__ import annotations

# Bytes of svmlight text that a thread parses at a time.
TEXT_CHUNK = 4 << 20

# Characters of JSON in a file, at most: parsed, they take up to 20 times the memory.
MAX_JSON = 64 << 20

# Entries of X, and numbers per row and class, that are looked at together for a proof.
PROOF_PIECE = 1 << 20
