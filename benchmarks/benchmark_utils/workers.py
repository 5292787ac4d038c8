"""A process that holds data and fits when it is asked to, and that can be stopped while it does."""

import json
import select
import subprocess
from collections.abc import Callable
from typing import Any


class Worker:
    """A process that answers lines of JSON with lines of JSON, started when it is first asked.

    It says ``null`` when it is about to begin, so that loading data is not on the clock of `ask`.
    A process that was stopped is started afresh for the next question.
    """

    def __init__(self, command: list[str], **place: Any) -> None:
        self.command, self.place = command, place
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, question: Any, cap: float | None = None) -> Any:
        """Return the answer; None if it takes more than `cap` seconds, and then stop the process.

        Without `cap`, wait for ever.
        """
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                **self.place,
            )
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        if self._line(None) is not None:
            raise RuntimeError(f"{self.command} did not say that it begins")
        answer = self._line(cap)
        if answer is None:
            self.stop()
        return answer

    def _line(self, cap: float | None) -> Any:
        output = self.process.stdout
        if cap is not None and not select.select([output], [], [], cap)[0]:
            return None
        line = output.readline()
        if not line:
            raise RuntimeError(f"{self.command} ended with code {self.process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def take_turns(fits: list[Callable[[], float]], repeats: int) -> list[list[float]]:
    """Return what each of them returns, turn by turn; who is first changes from turn to turn."""
    times: list[list[float]] = [[] for _ in fits]
    for turn in range(repeats):
        for k in range(len(fits)):
            which = (turn + k) % len(fits)
            times[which].append(fits[which]())
    return times
