"""Partitions in this process, for tests and benchmarks/partitions.py."""

import functools

from dualsweep.placements.cluster.partitions import Answer, Partition


class LocalPartitions:
    """Partitions in this process.

    Parameters
    ----------
    problems : list of BinaryProblem or MulticlassProblem
        Their rows.
    schedule : str
        A name from `SCHEDULES`.
    lose : callable
        Told the number of each question, before it is answered; returns a partition to lose, or
        None.
    """

    def __init__(self, problems, schedule="auto", lose=lambda t: None):
        self.problems, self.schedule, self.lose = problems, schedule, lose
        self.n_parts, self.n_rows = len(problems), sum(problem.n_rows for problem in problems)
        self.restarts = self.n_asked = 0
        self.n_sent = self.n_summed = 0  # questions with weights, and answers
        self.parts = [self._new(k) for k in range(self.n_parts)]

    @property
    def n_rounds(self):
        """Rounds: a broadcast of weights, a sum of weights, or both."""
        return max(self.n_sent, self.n_summed)

    def _new(self, k):
        return Partition(self.problems[k], self.schedule, (0, k))

    def ask(self, question, *sent, **how):
        """Ask each partition; return the sum of the answers."""
        self.n_asked += 1
        lost = self.lose(self.n_asked)
        if lost is not None:
            self.parts[lost] = self._new(lost)
            self.restarts += 1
        answers = [
            question(part, problem, *sent, **how)
            for part, problem in zip(self.parts, self.problems, strict=True)
        ]
        answer = functools.reduce(Answer.plus, answers)
        self.n_sent += bool(sent)
        self.n_summed += answer.weights.size > 0
        return answer
