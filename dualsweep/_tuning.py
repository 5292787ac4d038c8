"""How work is cut up, and when a method takes over: the constants that tests set.

Code reads them where it needs them, as ``_tuning.NAME``. Tests set them by the fixture `tuned`
only. Kernels get them as arguments: a constant is compiled into what reads it.
"""

from __future__ import annotations

# Rows in a part of a pass, at least: to hand a part to a thread takes time. A row of a Gram matrix
# takes longer, a number per row less.
PART_ROWS, GRAM_ROWS, LIGHT_ROWS = 10_000, 1024, 30_000

# Rows in a part of the Gram matrix of dense rows, at least and at most. A row takes the same time
# in parts of 512 rows and of 2048. Each thread has a copy of its part.
LEAST_GRAM_ROWS, MOST_GRAM_ROWS = 512, 2048

# Entries per weight in a part of a weighted sum, at least: each part has weights of its own, which
# are zeroed and summed up.
ENTRIES_PER_WEIGHT = 4

# Numbers in a chunk, at most: responses, or factors of a Gram matrix of many classes.
CHUNK = 1 << 16

# Entries in a chunk whose rows are used twice: for their responses, then for their sum.
CHUNK_ENTRIES = 200_000

# Products of two entries between two looks at the clock: some 0.1 s.
PAIRS_PER_CALL = 100_000_000

# Up to this many weights a Newton step builds the Hessian and factorises it; above it takes
# conjugate gradients.
DIRECT_WEIGHTS = 2000

# Newton steps run inside one kernel, on one thread, if all of them are expected to cost at most
# this many entries. 5,000 x 50 entries, hinge, C = 1: 3.7 ms instead of 8.0.
SMALL_NEWTON = 2e7

# Parts of a Gram matrix that threads add up inside the kernel, where memory allows, and rows that
# each has at least.
GRAM_PARTS, PICKED_ROWS = 32, 256

# Many classes: rows in a part of a Hessian product, at least; rows per weight that suffice to
# precondition with; numbers that tables may have whatever the size of X, 128 MB.
CURVED_ROWS, SAMPLE, SMALL_TABLES = 125, 3, 1 << 24

# Entries visited in a sweep between two looks at the clock and the stop flag: some 0.1 s at most.
ENTRIES_PER_CALL = 20_000_000

# Stored entries from which threads share the sweeps of a problem with one vector of weights.
SLICED_ENTRIES = 2_000_000

# What groups of rows may leave uncorrected, see solvers/sliced.py: up to 1, as many sweeps are
# needed as without groups; from 2 on, sweeps can diverge.
UNCORRECTED = 0.5

# Momentum begins after FIRST_MOMENTUM sweeps if more than WORTH_MOMENTUM are left. Sweeps to a gap
# of 1e-3 on blogs: 395 become 211 at C = 100 (hinge), 208 become 118 (squared hinge), at C = 1000
# more than 1,900 become 577. A wrong guess costs: 99 instead of 87 on separable rows; and with
# FIRST_MOMENTUM = 24, to a gap of 1e-6, 254 instead of 151.
FIRST_MOMENTUM, WORTH_MOMENTUM = 32, 40.0

# Problems that wait for others to take Newton steps with, at most: each has some numbers per row.
MOST_WAITING = 64

# Numbers in an array made of a slice of the rows, at most, in host memory, where it should stay in
# the cache; free bytes on a device for each of them, since there are several such arrays at a time.
HOST_SLICE, SLICE_BYTES = 1 << 20, 256

# Seconds that the data of a cluster may be lost before it counts as lost for good.
LOST = 30.0

# Seconds of compilation that people are told of.
LONG_COMPILATION = 2.0

# Bytes of svmlight text that a thread parses at a time.
TEXT_CHUNK = 4 << 20

# Characters of JSON in a file, at most: parsed, they take up to 20 times the memory.
MAX_JSON = 64 << 20

# Entries of X, and numbers per row and class, that are looked at together for a proof.
PROOF_PIECE = 1 << 20
