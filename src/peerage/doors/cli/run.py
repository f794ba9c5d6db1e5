"""`peerage run`: a season, with progress while it goes and a summary at its end."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from peerage.doors.cli.ask import PARTIAL
from peerage.doors.cli.options import WITH_NO, Common
from peerage.doors.cli.screen import say, write_json, write_line
from peerage.errors import BudgetError
from peerage.reports.options import RunOptions

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from peerage.doors.render.layout import TextTable
    from peerage.panel import Council
    from peerage.season import Progress
    from peerage.stores.prompt_files import Prompts

INTERRUPTED = 130
REFRESH_S = 0.2
PLAIN_LINE_EVERY_S = 10.0


def season(
    prompts: Annotated[Path, Parameter(help="JSONL, CSV or Parquet with a query column.")],
    /,
    *,
    options: Annotated[RunOptions, WITH_NO] = RunOptions(),
    common: Common = Common(),
) -> int:
    """Run a session for every row of a file; the exit code says how the season ended."""
    from peerage.panel import Council
    from peerage.season import Progress
    from peerage.stores.prompt_files import open_prompts

    rows = open_prompts(prompts)
    council = Council(common.council_settings(options.flags()))
    progress = Progress(rows.n)
    name = prompts.name if options.resume else f"{prompts.name} {time.time_ns()}"
    asyncio.run(_run_season(council, name, rows, options.concurrency, progress, common.quiet))
    if common.json:
        write_json(summary(progress))
    else:
        _show(progress)
    if progress.out_of_budget:
        return BudgetError.exit_code
    if progress.stopped:
        return INTERRUPTED
    return PARTIAL if progress.no_quorum or not progress.complete else 0


async def _run_season(
    council: Council,
    name: str,
    prompts: Prompts,
    concurrency: int,
    progress: Progress,
    quiet: bool,
) -> None:
    from peerage.season import run_season

    stop = asyncio.Event()
    with _Interrupts(stop), _watch(progress, quiet) as on_change:
        async with council:
            await run_season(
                council.season(name),
                prompts,
                council.caller,
                council.store,
                concurrency=concurrency,
                clock=time.time,
                progress=progress,
                on_change=on_change,
                stop=stop,
            )


class _Interrupts:
    """The first Ctrl-C begins no new session; a second one leaves at once. Nothing is lost."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop

    def __enter__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.loop.add_signal_handler(signal.SIGINT, self._interrupted)

    def __exit__(self, *_: object) -> None:
        self.loop.remove_signal_handler(signal.SIGINT)

    def _interrupted(self) -> None:
        if self.stop.is_set():
            if self.task is not None:
                self.task.cancel()
            return
        self.stop.set()
        say("finishing the sessions in flight; press Ctrl-C again to leave now.")


class _watch:  # noqa: N801 - reads as a sentence: with _watch(progress)
    """A moving bar on a terminal, a line now and then elsewhere, always on stderr."""

    def __init__(self, progress: Progress, quiet: bool) -> None:
        self.progress = progress
        self.quiet = quiet
        self.began = self.last = time.monotonic()
        self.bar: Bar | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> Any:
        from peerage.doors.cli.terminal import Terminal, text_column

        console = Terminal(stderr=True)
        if not self.quiet and console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self.bar = Bar(
                text_column("sessions"),
                BarColumn(),
                MofNCompleteColumn(),
                text_column("{task.fields[state]}"),
                TimeRemainingColumn(),
                console=console,
            )
            self.task = self.bar.add_task("", total=self.progress.total, state="")
            self.bar.start()
        return self.changed

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.last = 0.0
            self.changed()
            self.bar.stop()

    def changed(self) -> None:
        now = time.monotonic()
        every = REFRESH_S if self.bar is not None else PLAIN_LINE_EVERY_S
        if self.quiet or now - self.last < every:
            return
        self.last = now
        state = self._state(now)
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=self.progress.done, state=state)
        else:
            line = f"{self.progress.done} of {self.progress.total} sessions, {state}"
            write_line(line, to_stderr=True)

    def _state(self, now: float) -> str:
        progress = self.progress
        rate = (progress.done - progress.reused) / max(1e-9, now - self.began)
        failed = sum(progress.failures.values())
        left = progress.total - progress.done
        eta = f", about {left / rate:.0f} s to go" if rate and self.bar is None else ""
        return (
            f"{progress.in_flight} in flight, {failed} calls failed, {rate:.1f}/s, "
            f"{cost(progress)}{eta}"
        )


def cost(progress: Progress) -> str:
    """The bill of this run so far."""
    from peerage.doors.render.phrases import money

    return money(progress.cost_usd, progress.unpriced_calls)


def summary(progress: Progress) -> dict[str, Any]:
    """How the season ended, as plain JSON values."""
    return {
        "sessions": progress.total,
        "finished": progress.done,
        "reused": progress.reused,
        "no_quorum": progress.no_quorum,
        "calls": progress.calls,
        "cost_usd": progress.cost_usd,
        "unpriced_calls": progress.unpriced_calls,
        "failures": [
            {"seat": seat, "stage": stage, "kind": kind, "n": n}
            for (seat, stage, kind), n in sorted(progress.failures.items())
        ],
        "in_another_process": progress.elsewhere,
        "unreadable": dict(progress.unreadable),
        "out_of_budget": progress.out_of_budget or None,
        "interrupted": progress.stopped,
    }


def _show(progress: Progress) -> None:
    from peerage.doors.cli.terminal import Terminal

    console = Terminal()
    again = f" ({progress.reused} from earlier runs)" if progress.reused else ""
    console.print(
        f"{progress.done} of {progress.total} sessions finished{again}, "
        f"{progress.calls} calls, {cost(progress)}."
    )
    if progress.no_quorum:
        console.print(
            f"{progress.no_quorum} without a quorum: too few seats answered.", style="red"
        )
    if progress.failures:
        failures_table(progress).show(console)
    if progress.elsewhere:
        console.print(f"{progress.elsewhere} are run by another process, and were left to it.")
    for session_id, reason in progress.unreadable.items():
        console.print(f"Passed over {session_id}: {reason}", style="red")
    if progress.out_of_budget:
        console.print(f"Stopped: {progress.out_of_budget}", style="red")
    if not progress.complete:
        console.print("The same command goes on where this one stopped.")


def failures_table(progress: Progress) -> TextTable:
    """The calls of a season that failed, the most frequent first."""
    from peerage.doors.render.layout import TableColumn, TextTable

    heads = (TableColumn("seat", "name"), TableColumn("stage", "word"), TableColumn("kind", "word"))
    table = TextTable(*heads, TableColumn("n"), title="calls that failed")
    for (seat, stage, kind), n in progress.failures.most_common():
        table.add(seat, stage, kind, str(n))
    return table
