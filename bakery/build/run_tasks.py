"""Runs the tasks of a context with a backend: journal, loop and report are the same for all backends."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from bakery.build.backend import Backend
from bakery.build.buildx.outcome import Result
from bakery.build.context import RunContext
from bakery.build.finish import Finisher
from bakery.build.journal import Record, open_journal
from bakery.build.loop import Runner
from bakery.build.options import CellSelection
from bakery.build.records.recorder import Recorder
from bakery.build.report import CellFailure, RunReport, built_target, finished_target
from bakery.build.scheduler import Schedule
from bakery.build.signals import Signals
from bakery.engine.memory_peaks import Peaks

if TYPE_CHECKING:
    from bakery.engine.nodes import Watch


def run_tasks(
    context: RunContext,
    backend: Backend,
    schedule: Schedule,
    signals: Signals,
    *,
    recorder: Recorder | None = None,
    watch: Watch | None = None,
    peaks: Peaks | None = None,
) -> RunReport:
    """Run the tasks of a context to the end, and report on all of its targets. Arguments as of `Runner`, `Finisher`.

    Raises:
        BakeryError: what ends all tasks.
    """
    started = time.monotonic()
    journal = open_journal(context.state_folder, context.plan.recipe, _first_records(context))
    finisher = Finisher(context, journal, recorder, is_halted=lambda: bool(signals.arrived))
    runner = Runner(context, schedule, backend, finisher, signals, watch, peaks)
    runner.run()
    report = _report(context, runner, time.monotonic() - started)
    (context.folder / "report.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
    return report


def _first_records(context: RunContext) -> list[Record]:
    """Return the first records of the journal: cells that are built now are unfinished, the others are unchanged."""
    plan, peaks = context.plan, context.peaks
    cells = {cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells)}
    started = [cell for task in context.tasks.values() for cell in task.cells]
    others = [record for name, record in context.previous.items() if name in cells and name not in started]
    return [*others, *(Record(name, context.keys[name], Result.CANCELED, peaks.get(name, 0)) for name in started)]


def _report(context: RunContext, runner: Runner, seconds: float) -> RunReport:
    states = {cell: runner.states[name] for name, task in context.tasks.items() for cell in task.cells}
    outcomes = [state.outcome for state in runner.states.values() if state.outcome]
    rows = [
        finished_target(target, context.finished[target.cell.id], context.output)
        if target.cell.id in context.finished
        else built_target(target, states[target.cell.id], context.output)
        for target in context.targets
        if context.options.selection is not CellSelection.FAILED or target.cell.id not in context.finished
    ]
    return RunReport(
        recipe=context.plan.recipe,
        targets=tuple(rows),
        output=context.output,
        state=context.folder,
        seconds=seconds,
        failures=tuple(CellFailure(name, state.error) for name, state in runner.states.items() if state.error),
        stopped=runner.signals.name or ("timeout" if runner.timed_out else ""),
        printed=tuple(sorted({name for outcome in outcomes for name in outcome.printed})),
    )
