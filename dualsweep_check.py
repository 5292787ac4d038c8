"""Check the proof that no linear model is much better than this one, in exact arithmetic.

    python dualsweep_check.py PROOF DATA     DATA: svmlight text, plain or compressed (gz, bz2, xz)

It needs Python's standard library alone. It recomputes both objectives from the data, and prints
VERIFIED, or REFUTED and why: exit code 0 or 1; 2 for input not in the format (docs/proofs.md).

Rows x_i have costs C_i >= 0, a model has weights w and an intercept b, which is B times a weight if
it is penalised. For two classes, or one against the rest, y_i = 1 or -1 and t_i = 1; for regression
y_i = 1 and t_i is the target. With slacks s_i = t_i - y_i (w.x_i + b) and dual variables a_i,

    P = 1/2 |w|^2 + 1/2 (b / B)^2 + sum_i C_i loss(s_i)
    D = sum_i (t_i a_i - epsilon |a_i| - q_i a_i^2)
        - 1/2 |sum_i a_i y_i x_i|^2 - 1/2 (B sum_i a_i y_i)^2

    loss                         of a slack s                 dual variables        q_i
    hinge                        max(0, s)                    0 <= a_i <= C_i       0
    squared_hinge                max(0, s)^2                  0 <= a_i              1 / (4 C_i)
    squared                      s^2                          any                   1 / (4 C_i)
    logistic                     log(1 + exp(s - 1))          0 <= a_i <= C_i
    epsilon_insensitive          max(0, |s| - epsilon)        -C_i <= a_i <= C_i    0
    squared_epsilon_insensitive  max(0, |s| - epsilon)^2      any                   1 / (4 C_i)

and for the logistic loss the first sum is that of a_i log(C_i / a_i) + d_i log(C_i / d_i), where
d_i = C_i - a_i. Without an intercept, b = 0 and the terms with B are missing; also if it is free,
and then sum_i a_i y_i = 0. All classes at once: a row has scores s_m = w_m.x_i + b_m, a_im for
classes m other than its own, y, and t_m = 1 - s_y + s_m; f_im = -a_im, and f_iy = sum_m a_im:

    P = 1/2 sum_m (|w_m|^2 + (b_m / B)^2) + sum_i C_i loss_i
    D = sum_im a_im - 1/2 sum_m (|sum_i f_im x_i|^2 + (B sum_i f_im)^2)

    crammer_singer    loss_i = max(0, max_m t_m)      0 <= a_im,  sum_m a_im <= C_i
    weston_watkins    loss_i = sum_m max(0, t_m)      0 <= a_im <= C_i

Where C_i = 0 there is no loss, and dual variables are 0. D of allowed dual variables is at most P
of any model (weak duality), so a model is at most P - D above the best. A proof claims upper and
lower bounds on P and D; this file shows that they are. A float is an integer times a power of two:
sums and products are exact. Quotients and logarithms are rounded against the claim.
"""

import bz2
import gzip
import lzma
import math
import struct
import sys
from collections import defaultdict
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from hashlib import sha256
from operator import mul

# The box of a dual variable in costs (None: no bound).
LOSSES = {"hinge": (0, 1), "logistic": (0, 1), "squared_hinge": (0, None)}
LOSSES |= {"squared": (None, None), "epsilon_insensitive": (-1, 1)}
LOSSES |= {"squared_epsilon_insensitive": (None, None)}
KNOWN = {"one_versus_rest": [*LOSSES][:4], "regression": [*LOSSES][4:]}
KNOWN |= {"crammer_singer": ["hinge"], "weston_watkins": ["hinge"]}
HEADER = "formulation loss epsilon intercept classes precision rows features data C".split()
MORE_BITS = 64  # of quotients
LEAST_BITS = 128  # of logarithms
DOWN = Context(prec=60, Emin=-999, rounding=ROUND_FLOOR)  # but exp and ln are rounded to nearest
OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}


class RefutedError(Exception):
    """The proof does not prove what it claims."""


def expect(holds, reason):
    if not holds:
        raise RefutedError(reason)


def bits_of(floats):  # the bits after the binary point that these need at most
    return max((x.as_integer_ratio()[1].bit_length() - 1 for x in floats), default=0)


def fixed(x, bits):  # a float times 2^bits, which is an integer
    numerator, denominator = x.as_integer_ratio()
    return numerator << (bits + 1 - denominator.bit_length())


def number(text):
    x = float(text)
    expect(math.isfinite(x), f"the proof has the number {text}")
    return x


def single(text):  # the float of 32 bits that is nearest to a decimal number, rounding once
    x = float(text)
    near = struct.unpack("f", struct.pack("f", x))[0]
    other = x + (x - near)
    if near == x or struct.unpack("f", struct.pack("f", other))[0] != other:
        return near
    exact, middle = Fraction(text), Fraction(x)  # x is halfway between two such floats
    return near if exact == middle or (exact > middle) == (near > x) else other


class Data:
    """Rows, which are read anew for each problem; their labels and digest."""

    def __init__(self, path, proof):
        self.path, self.value_of, self.base = path, {32: single, 64: float}[proof.precision], 0
        self.labels, self.bits, shape = [], 0, struct.pack("<qq", proof.n_rows, proof.n_features)
        digests = sha256(shape), sha256(shape)
        for label, columns, values in self.rows():
            for base, digest in enumerate(digests):  # the text may count columns from 0 or 1
                pairs = [(len(columns), label), *((j - base, x) for j, x in zip(columns, values))]
                digest.update(b"".join(struct.pack("<qd", *pair) for pair in pairs))
            self.labels.append(label)
            self.bits = max(self.bits, bits_of(values))
        found = [digest.hexdigest() for digest in digests]
        expect(proof.digest in found, f"the data have the digest {' or '.join(found)}")
        self.base = found.index(proof.digest)

    def rows(self):  # label, columns and values of each, without entries that are 0
        with open(self.path, "rb") as file:
            opener = OPENERS.get(file.read(2), open)
        with opener(self.path, "rt", encoding="utf-8") as file:
            for n, line in enumerate(file, 1):
                try:
                    if words := line.partition("#")[0].split():
                        yield self.row(*words)
                except (ValueError, OverflowError) as error:
                    raise ValueError(f"{self.path}, line {n}: {error}") from None

    def row(self, label, *words):
        label, last, columns, values = float(label) + 0.0, -1, [], []
        for word in words[1:] if words and words[0].startswith("qid:") else words:
            index, text = word.split(":")
            j, x = int(index), self.value_of(text)
            if j <= last or not math.isfinite(x) or not math.isfinite(label):
                raise ValueError(f"{word} comes after column {last}, the label is {label}")
            last = j
            if x:
                columns.append(j - self.base)
                values.append(x)
        return label, columns, values


class Proof:
    """What stands before the problems, and the file that these are read from one by one."""

    def __init__(self, file):
        self.file = file
        self.after("dualsweep-proof", "1")
        self.about = about = [self.after(name) for name in HEADER]
        (self.formulation,), (self.loss,), epsilon, intercept, classes = about[:5]
        self.precision, self.n_rows, self.n_features = (int(*words) for words in about[5:8])
        (self.digest,), self.C, self.epsilon = about[8], number(*about[9]), number(*epsilon)
        self.regression, self.free = self.formulation == "regression", intercept == ["free"]
        self.joint = not self.regression and self.formulation != "one_versus_rest"
        if self.loss not in KNOWN[self.formulation] or (self.joint and self.free):
            raise ValueError(f"{self.formulation} has no {self.loss} loss or free intercept")
        if intercept[:-1] != ["penalized"] and intercept not in (["none"], ["free"]):
            raise ValueError(f"the intercept is {intercept}")
        self.bias = number(*intercept[1:] or "0")
        self.classes, self.costs = [*map(number, classes)], self.section("costs", self.n_rows)
        k, ascending = len(self.classes), sorted(set(self.classes)) == self.classes
        expect(ascending and (k < 2) == self.regression, f"the classes are {self.classes}")
        least = min(self.bias, self.epsilon, *self.costs.values())
        expect(least >= 0 < self.C, "a cost, epsilon or the constant feature is negative")
        # By the number of the class that is against the rest, or else 0.
        self.problems = [0] if self.joint or self.regression else range(int(k == 2), k)

    def after(self, *names):  # the words of the next line after these, with which it has to start
        words = self.file.readline().split()
        if words[: len(names)] != list(names):
            raise ValueError(f"the proof has {words[:5]} where {names} is expected")
        return words[len(names) :]

    def section(self, name, end):  # floats by number, a line each; numbers ascend, to below end
        found, last = {}, -1
        for _ in range(int(*self.after(name))):
            text, x = self.after()
            expect(last < int(text) < end, f"{name} has {text} after {last}, and {end} is the end")
            last = int(text)
            found[last] = number(x)
        return found

    def read_problem(self, p):  # claimed P and D; intercept, weights, dual variables of vectors
        self.after("problem", str(p))
        primal, dual, vectors = number(*self.after("primal")), number(*self.after("dual")), []
        for m in range(len(self.classes) if self.joint else 1):
            self.after("vector", str(m))
            b = number(*self.after("intercept"))
            expect(b == 0 or self.bias or self.free, "there is an intercept")
            sections = self.section("weights", self.n_features), self.section("duals", self.n_rows)
            vectors.append((b, *sections))
        return primal, dual, vectors


def log_below(x, y, n):  # 2^n log(x / y), rounded down
    return math.floor(Fraction(DOWN.next_minus(DOWN.ln(DOWN.divide(x, y)))) * (1 << n))


def log_loss(u, n):  # 2^n log(1 + exp(u / 2^n)), rounded up
    small = DOWN.exp(DOWN.next_plus(DOWN.divide(-min(abs(u), 9999 << n), 1 << n)))
    return max(u, 0) - log_below(1, DOWN.next_plus(DOWN.add(1, DOWN.next_plus(small))), n)


def row_of_two(proof, target, y, c, score, a, n):  # loss, part of D, quotient, factor; n bits each
    if proof.loss == "logistic":
        entropy = sum(x * log_below(c, x, n) for x in (a, c - a) if x)
        return c * log_loss(-y * score, n) << n, entropy, 0, [y * a]
    slack, squared, epsilon = target - y * score, "squared" in proof.loss, fixed(proof.epsilon, n)
    if proof.loss != "squared":
        slack = max(abs(slack) - epsilon if proof.regression else slack, 0)
    loss = c * slack * (slack if squared else 1 << n)
    quotient = -(-(a * a << (n + MORE_BITS)) // (4 * c)) if squared else 0  # rounded up
    return loss, target * a - epsilon * abs(a), quotient, [y * a]


def row_of_many(proof, code, c, scores, a, n):  # the row's loss, part of D, no quotient, factors
    total, crammer_singer = sum(a), proof.formulation == "crammer_singer"
    expect(a[code] == 0, "a row has a dual variable for its own class")
    expect(total <= c or not crammer_singer, "dual variables add up to more than a row's cost")
    t = [max((1 << n) - scores[code] + s, 0) for m, s in enumerate(scores) if m != code]
    factors = [total if m == code else -x for m, x in enumerate(a)]
    return c * (max(t) if crammer_singer else sum(t)) << n, total << n, 0, factors


def objectives(proof, data, p, vectors):  # P and D of a problem, P rounded up and D down
    bs, weights, duals = zip(*vectors)
    others = [[*bs, proof.C, proof.epsilon], proof.costs.values(), *(d.values() for d in duals)]
    n = max(map(bits_of, [*others, data.labels if proof.regression else []]))
    least = LEAST_BITS if proof.loss == "logistic" else 0
    n = max(n, data.bits + max(bits_of(w.values()) for w in weights), least)
    k, one = n - data.bits, 1 << n  # weights have k bits, so that scores have n
    ws = [defaultdict(int, {j: fixed(x, k) for j, x in w.items()}) for w in weights]
    fixed_bs, (lower, upper) = [fixed(b, n) for b in bs], LOSSES[proof.loss]
    codes = {label: m for m, label in enumerate(proof.classes)}
    loss, linear, quotient, totals = 0, 0, 0, [0] * len(vectors)
    sums = [defaultdict(int) for _ in vectors]
    for i, (label, columns, values) in enumerate(data.rows()):
        code, c = codes.get(label), fixed(proof.costs.get(i, proof.C), n)
        a = [fixed(d.get(i, 0.0), n) for d in duals]
        inside = (lower is None or lower * c <= min(a)) and (upper is None or max(a) <= upper * c)
        expect(inside and (c or not any(a)), f"row {i}: a dual variable is out of bounds")
        expect(proof.regression or code is not None or not c, f"row {i}: {label} is no class")
        if c == 0:
            continue
        xs = [fixed(x, data.bits) for x in values]
        scores = [b + sum(map(mul, map(w.__getitem__, columns), xs)) for w, b in zip(ws, fixed_bs)]
        if proof.joint:
            row = row_of_many(proof, code, c, scores, a, n)
        else:
            y, target = (1, fixed(label, n)) if proof.regression else (1 if code == p else -1, one)
            row = row_of_two(proof, target, y, c, *scores, *a, n)
        loss, linear, quotient = loss + row[0], linear + row[1], quotient + row[2]
        for m, f in enumerate(row[3]):
            totals[m] += f
            for j, x in zip(columns, xs) if f else ():
                sums[m][j] += f * x
    expect(not proof.free or totals == [0], "sum_i a_i y_i is not 0")
    bias = Fraction(proof.bias)
    primal = Fraction(sum(x * x for w in ws for x in w.values()), 2 << (2 * k))
    primal += sum(Fraction(b) ** 2 for b in bs) / (2 * bias**2) if bias else 0
    size = Fraction(sum(x * x for s in sums for x in s.values()), 2 << (2 * (n + data.bits)))
    size += bias**2 * Fraction(sum(u * u for u in totals), 2 * one**2)
    dual = Fraction(linear, one**2) - Fraction(quotient, one**2 << MORE_BITS) - size
    return primal + Fraction(loss, one**3), dual


def check(file, data_path):
    """Return what an opened proof proves; RefutedError if it is not what it claims."""
    proof = Proof(file)
    data, gap, relative = Data(data_path, proof), Fraction(0), Fraction(0)
    for p in proof.problems:
        upper, lower, vectors = proof.read_problem(p)
        primal, dual = objectives(proof, data, p, vectors)
        expect(primal <= upper, f"problem {p}: P is above the claim, {upper!r}")
        expect(dual >= lower, f"problem {p}: D is below the claim, {lower!r}")
        gap += Fraction(upper) - Fraction(lower)
        relative = max(relative, 1 - Fraction(lower) / Fraction(upper) if upper else lower < 0)
    proof.after("end")
    up = Context(prec=3, rounding=ROUND_CEILING)
    more = [up.divide(Decimal(x.numerator), x.denominator) for x in (gap, 100 * relative)]
    about = "; ".join(" ".join([name, *words]) for name, words in zip(HEADER, proof.about))
    about += f"; {len(proof.costs)} rows with other costs"
    return "VERIFIED: no model is more than {:g} ({:g} %) better".format(*more) + f"\n{about}"


def main():
    try:
        proof_path, data_path = sys.argv[1:]
        with open(proof_path, encoding="ascii") as file:
            print(check(file, data_path))
    except RefutedError as reason:
        print(f"REFUTED: {reason}")
        return 1
    except Exception as error:  # of files, of compressed text, of words that are no numbers
        print(f"Usage: dualsweep_check PROOF DATA. Cannot read this: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
