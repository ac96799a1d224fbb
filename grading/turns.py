"""Who is graded when: tasks go to processes of this machine, or to a Dask scheduler, and come back as they end.

Either way a task is the same plain data and the same function (grading/apart.py), and its result is noted by whoever asked.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterable, Iterator

from grading import apart, status


class NoCluster(RuntimeError):
    """What speaks to a cluster is not installed; the message says how to get it."""


Work = Iterable[tuple[str, Callable[[], dict]]]  # a student, and what makes the task: small until its turn comes


def here(work: Work, jobs: int) -> Iterator[tuple[str, dict]]:
    """(student, outcome) as they end, `jobs` at a time."""
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    waiting = iter(work)
    running: dict[concurrent.futures.Future, str] = {}
    try:
        while True:
            while len(running) < jobs and (one := next(waiting, None)) is not None:
                running[pool.submit(lambda make: apart.outcome(make()), one[1])] = one[0]
            if not running:
                return
            for done in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                yield running.pop(done), done.result()
    finally:
        apart.stop()  # what still runs when the caller leaves (Ctrl-C) is of no use to anybody
        pool.shutdown(cancel_futures=True)


def cluster(work: Work, address: str) -> Iterator[tuple[str, dict]]:
    """(student, outcome) as they end on the workers of the Dask scheduler at `address`.

    When a worker dies, the scheduler gives its tasks to another. Raises NoCluster without Dask, OSError without a scheduler.
    """
    try:
        from dask.distributed import Client, as_completed
    except ImportError as error:
        raise NoCluster("Dask is not installed here: sh tools/environment.sh grade cluster") from error

    with Client(address) as client:
        futures = {client.submit(apart.outcome, make(), pure=False, retries=2): student for student, make in work}
        for future in as_completed(futures):
            try:
                outcome = future.result()
            except Exception as error:  # lost with several workers, or one of them has no box: told, and the others go on
                outcome = {"status": status.DIED, "reason": f"on the cluster: {type(error).__name__}: {error}"}
            yield futures[future], outcome


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
