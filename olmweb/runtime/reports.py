"""Work of the queue `reports`: what people request and may take long, picked fairly.

A request is a row. The message only wakes a worker, which picks the row of the person who has the
fewest running and was served longest ago. So 50 requests of one person are not in front of the
first of another. A lost message does no harm: beat wakes workers while rows wait.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from olmweb.runtime.leases import held_names, renewed_lease
from olmweb.tasks import task

TIME_LIMIT = 600  # seconds of one report
ATTEMPTS = 3  # after which a report is given up whose workers died
WOKEN = 16  # workers at most by one run of `resume_reports`
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Job:
    """An unfinished row. `kind` and `key` name its lease."""

    kind: str
    key: int
    person: str
    requested_at: datetime

    @property
    def lease(self) -> str:
        return f"{self.kind}:{self.key}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One table of requests.

    `unfinished` lists its jobs; `served` maps people to when their last job began; `run` does the
    job with this key, and nothing if it is finished. It is called under the lease of the job.
    """

    name: str
    unfinished: Callable[[], Iterable[Job]]
    served: Callable[[], Mapping[str, datetime]]
    run: Callable[[int], None]


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    _kinds[kind.name] = kind


def in_order(
    waiting: Iterable[Job], running: Mapping[str, int], served: Mapping[str, datetime]
) -> list[Job]:
    """The jobs in the order in which they should begin, if only one did. `running` counts the
    running jobs of each person. Pure."""
    return sorted(
        waiting,
        key=lambda job: (
            running.get(job.person, 0),
            served.get(job.person, _NEVER),
            job.requested_at,
            job.key,
        ),
    )


def _waiting() -> list[Job]:
    held = {name for kind in _kinds for name in held_names(f"{kind}:")}
    unfinished = [job for kind in _kinds.values() for job in kind.unfinished()]
    running = Counter(job.person for job in unfinished if job.lease in held)
    served: dict[str, datetime] = {}
    for kind in _kinds.values():
        for person, began in kind.served().items():
            served[person] = max(began, served.get(person, _NEVER))
    return in_order((job for job in unfinished if job.lease not in held), running, served)


def others_wait(kind: str) -> bool:
    """Whether a job of another kind waits, for long work that can be done in turns."""
    return any(job.kind != kind for job in _waiting())


def run_next() -> bool:
    """Does the next job that no other worker does; False when none waits."""
    for job in _waiting():
        with renewed_lease(job.lease) as held:
            if held is not None:
                _kinds[job.kind].run(job.key)
                return True
    return False


@task(name="olmweb.run_report", queue="reports", time_limit=TIME_LIMIT, expires=60)
def run_report() -> None:
    """Does one job, and wakes a worker for the next."""
    if run_next():
        run_report.delay()


@task(name="olmweb.resume_reports", queue="actions", time_limit=60, expires=15)
def resume_reports() -> None:
    """Wakes workers for jobs whose message or worker is gone."""
    for _ in _waiting()[:WOKEN]:
        run_report.delay()
