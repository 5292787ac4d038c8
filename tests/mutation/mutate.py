"""Mutation tests of the mathematics: does some test fail if a line of a kernel is changed?

    python tests/mutation/mutate.py [--again] [--sample N] [module ...]

Mutants are made by cosmic-ray, in a copy of the repository, and run with numba's compiler off. Its
sessions are kept in build/mutation; with --again only the survivors of the last one are run, and
take what tests have been added meanwhile. Prints the survivors that equivalent.txt does not explain
and the score of each module, and fails where one is below LEAST_SCORE.
"""

import argparse
import gc
import importlib
import os
import random
import re
import resource
import shlex
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import cosmic_ray.mutating
import cosmic_ray.plugins
from cosmic_ray.commands import init
from cosmic_ray.operators.operator import Operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import TestOutcome
from parso.python.tree import Name
from parso.python.tree import Operator as Token

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SESSIONS = ROOT / "build" / "mutation"

LEAST_SCORE = 90  # percent
CPU_SECONDS = 15  # of a mutant; one that takes longer counts as killed
MEMORY = 8 << 30  # bytes

TESTS = {
    "losses/box.py": "tests/test_losses.py tests/test_kernels.py -k 'test_losses or sweep or tiny'",
    "losses/logistic.py": "tests/test_logistic.py -k 'shares or visit or slope or arrays or tells'",
    "_random.py": "tests/test_random.py",
    "kernels/block_steps.py": (
        "tests/test_subproblems.py tests/test_multiclass.py -k 'kernels_of_block_steps or "
        "(guesses or walk) and (crammer or weston or sort or (conditions and not 1000))'"
    ),
    "solvers/schedules.py": "tests/test_schedules.py",
    "kernels/certificate.py": (
        "tests/test_kernels.py -k 'certificate or tiny or squares or prove or relative or settled "
        "or nothing or rounding_of'"
    ),
    "kernels/intercept.py": "tests/test_free_intercept.py -k intercept_is_best",
    "kernels/binary.py": (
        "tests/test_kernels.py -k 'sweep or gain or zero_row or order or float32 or copies'"
    ),
    "kernels/scaling.py": "tests/test_kernels.py -k multiple",
    "kernels/multiclass.py": "tests/test_multiclass.py -k 'sweep or kernel or certificate'",
    "kernels/newton_binary.py": "tests/test_newton.py -k 'inner_problem or enter_or_leave'",
    "kernels/small.py": "tests/test_small.py -k 'systems or finite or bitwise or start or general'",
    "kernels/newton_multiclass.py": (
        "tests/test_multiclass.py -k 'newton_passes or (system and not threads)'"
    ),
    "solvers/momentum.py": "tests/test_momentum.py -k 'gap_of_w and hinge'",
    "kernels/multinomial.py": (
        "tests/test_multinomial.py -k 'kernels_of or a_visit or certificate_equals or "
        "best_intercepts'"
    ),
    "kernels/newton_multinomial.py": (
        "tests/test_multinomial.py -k 'newton_steps_compute or leave_out'"
    ),
    "kernels/elementary.py": "tests/test_kernels.py -k quick",
    "kernels/duals.py": "tests/test_duals.py",
    "rows/functions.py": "tests/test_rows.py",
    "rows/layouts.py": "tests/test_rows.py",
    "rows/many_classes.py": "tests/test_rows.py tests/test_passes.py",
    "rows/passes.py": "tests/test_passes.py",
}

# Operators of cosmic-ray that mean something in numeric code. Left out are those that most often
# end in a TypeError (bits of floats, `is`), the removal of decorators, and all but two replacements
# of each arithmetic operator.
KEPT = re.compile(
    r"ReplaceBinaryOperator_(Add_Sub|Add_Mul|Sub_Add|Sub_Mul|Mul_Div|Mul_Add|Div_Mul|Div_Sub"
    r"|FloorDiv_Mul|Mod_FloorDiv|Pow_Mul|RShift_LShift|BitXor_BitOr|BitXor_BitAnd"
    r"|BitOr_BitAnd|BitAnd_BitOr)"
    r"|ReplaceComparisonOperator_(?!Is)[A-Za-z]+_(?!Is)[A-Za-z]+"
    r"|ReplaceUnaryOperator_Delete_\w+"
    r"|AddNot|Replace(TrueWithFalse|FalseWithTrue|AndWithOr|OrWithAnd)"
    r"|Replace(BreakWithContinue|ContinueWithBreak)|NumberReplacer|ZeroIterationForLoop"
)
# Lines and functions whose mutants say nothing: hints to the processor, types, words, and sizes
# from which, or numbers of attempts after which, another way to the same result is taken.
SKIPPED_LINES = re.compile(
    r"TypeAlias|\bprefetch|\braise\b|^\s*f\"|(HEAD|ROW)_AHEAD"
    r"|\b(GAPS|FEW_CLASSES|CHUNK|CHUNK_ENTRIES|PAIRS_PER_CALL|ENTRIES_PER_WEIGHT|PART_ROWS)\b"
    r"|^(GUESSES|RAISES|FIRST_SLOTS|MOST_SLOTS|PREFETCH|CACHE_LINE)"
)
SKIPPED_FUNCTIONS = re.compile(r".*prefetch.*|head_(csr|dense)")
# Names of vectors: their shape[0] is their shape[-1].
VECTORS = re.compile(
    r"\b(alpha|along|b|candidates|scale|slack|values|indptr|items|members|order|row|scores|t|violations|w|y)\.shape\[$"
)


class Swap(Operator):
    """Replace a token by its counterpart."""

    tokens: dict[str, str]
    kind: type

    def mutation_positions(self, node):
        if isinstance(node, self.kind) and node.value in self.tokens:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        node.value = self.tokens[node.value]
        return node

    @classmethod
    def examples(cls):
        return ()


class SwapMinMax(Swap):
    tokens, kind = {"min": "max", "max": "min"}, Name


class SwapAugmented(Swap):
    tokens, kind = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&="}, Token


def choose_operators():
    core = cosmic_ray.plugins.OPERATOR_PROVIDERS["core"]
    cosmic_ray.plugins.OPERATOR_PROVIDERS["core"] = {
        name: core[name] for name in core if KEPT.fullmatch(name)
    }
    cosmic_ray.plugins.OPERATOR_PROVIDERS["ours"] = {
        operator.__name__: operator for operator in (SwapMinMax, SwapAugmented)
    }


def prepare():
    """Import what takes long and is no part of the library: mutants are tested in forks."""
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for name in ("pytest", "hypothesis", "numba.extending", "scipy.optimize", "scipy.sparse"):
        importlib.import_module(name)
    for name in ("svm", "datasets", "base"):
        importlib.import_module(f"sklearn.{name}")
    cosmic_ray.mutating.run_tests = run_tests
    gc.collect()
    gc.freeze()


def run_tests(command, timeout):
    """Run pytest in a fork; a stand-in for cosmic-ray's, which starts an interpreter."""
    import pytest

    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        options = ["-x", "--assert=plain", "-o", "addopts="]
        for plugin in ("cacheprovider", "xdist", "unraisableexception"):  # the last one is slow
            options += ["-p", f"no:{plugin}"]
        os._exit(pytest.main([*options, *shlex.split(command)]))
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return TestOutcome.SURVIVED, ""
    return TestOutcome.KILLED, "timeout" if os.WIFSIGNALED(status) else ""


def is_wanted(item, lines):
    (mutation,) = item.mutations
    row, column = mutation.start_pos
    line = lines[row - 1]
    lowered = mutation.operator_name == "core/NumberReplacer" and mutation.occurrence % 2 == 1
    return not (
        SKIPPED_LINES.search(line)
        or SKIPPED_FUNCTIONS.fullmatch(mutation.definition_name or "")
        or (lowered and VECTORS.search(line[:column]))
    )


def describe(item, result):
    """Return a mutant as ``function: line => mutated line``."""
    changed = [line for line in result.diff.split("\n")[3:] if line[:1] in ("-", "+")]
    old = " ".join(line[1:].strip() for line in changed if line[0] == "-")
    new = " ".join(line[1:].strip() for line in changed if line[0] == "+")
    return f"{item.mutations[0].definition_name}: {old} => {new}".strip()


def equivalents():
    """Return the mutants that cannot be killed, by module: indented below a line that says why."""
    found, module = {}, ""
    for line in (HERE / "equivalent.txt").read_text().splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line.startswith(" "):
            found.setdefault(module, set()).add(line.strip())
    return found


def run_module(name, again, sample):
    """Run the mutants of a module, at most `sample`; return them with their results."""
    path = Path("dualsweep") / name
    lines = path.read_text().splitlines()
    sys.dont_write_bytecode = False
    outcome, _ = run_tests(TESTS[name], CPU_SECONDS)
    sys.dont_write_bytecode = True  # that of a mutant might be taken for that of the next one
    if outcome != TestOutcome.SURVIVED:
        sys.exit(f"{TESTS[name]} fails without any mutant")
    SESSIONS.mkdir(parents=True, exist_ok=True)
    with use_db(str(SESSIONS / f"{path.stem}.sqlite")) as db:
        if again:
            items = [
                item
                for item, result in db.completed_work_items
                if result.test_outcome == TestOutcome.SURVIVED and is_wanted(item, lines)
            ]
        else:
            init([path], db, {})
            items = [item for item in db.work_items if is_wanted(item, lines)]
            items = random.Random(0).sample(items, min(sample, len(items)))
        for done, item in enumerate(items):
            print(f"\r{name} {done}/{len(items)} ", end="", file=sys.stderr, flush=True)
            result = cosmic_ray.mutating.mutate_and_test(item.mutations, TESTS[name], CPU_SECONDS)
            db.set_result(item.job_id, result)
        print("\r", end="", file=sys.stderr)
        return [done for done in db.completed_work_items if is_wanted(done[0], lines)]


def report(name, results, equivalent):
    """Print what became of the mutants of a module; return the score."""
    survived = sorted(
        describe(item, result)
        for item, result in results
        if result.test_outcome == TestOutcome.SURVIVED
    )
    unexplained = [mutant for mutant in survived if mutant not in equivalent]
    killed = len(results) - len(survived)
    timeout = sum(result.output == "timeout" for _, result in results)
    score = 100 * killed / (killed + len(unexplained))
    print(
        f"{name:30} {len(results):5} mutants {killed:5} killed ({timeout} by time) "
        f"{len(unexplained):4} survived {len(survived) - len(unexplained):4} equivalent "
        f"{score:6.1f} %"
    )
    for mutant in unexplained:
        print("   ", mutant)
    return score


def main():
    parser = argparse.ArgumentParser(description="Mutation tests")
    parser.add_argument("modules", nargs="*", choices=[*TESTS, []], metavar="module")
    parser.add_argument("--again", action="store_true", help="run the last survivors only")
    parser.add_argument("--sample", type=int, default=10**6, help="mutants of each module to run")
    arguments = parser.parse_args()
    choose_operators()
    prepare()
    scores = []
    compiled = shutil.ignore_patterns("__pycache__")
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(ROOT / "dualsweep", f"{copy}/dualsweep", ignore=compiled)
        shutil.copytree(ROOT / "tests", f"{copy}/tests", ignore=compiled)
        steps = "benchmarks/steps"  # which tests of block steps compare with
        shutil.copytree(ROOT / steps, f"{copy}/{steps}", ignore=compiled)
        shutil.copy(ROOT / "pyproject.toml", copy)
        sys.path.insert(0, copy)
        with chdir(copy):
            for name in arguments.modules or TESTS:
                results = run_module(name, arguments.again, arguments.sample)
                scores.append(report(name, results, equivalents().get(name, set())))
    sys.exit(min(scores) < LEAST_SCORE)


if __name__ == "__main__":
    main()
