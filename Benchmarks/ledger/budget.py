"""What a small job may cost: budget.json, and the rules by which a sample is compared with it.

A sample is: size of a request → stage → kind of count → count per job. For each size and kind, a sample is above its
budget if the sum of all stages is more than 5 % above it, or if a stage is above its own by more than 15 % and by
more than 2 % of the sum. The threads that work by the clock have no bound of their own: what they cost per job depends
on how long the run takes. Timing moves counts by a few per cent, so a sample that is above is followed by two more, and
the medians decide.
"""
from __future__ import annotations

import json
import pathlib
import statistics

# Statements and bytes of WAL are not among them: timing decides how many jobs share a statement.
KINDS = {"instructions": "instructions", "allocations": "allocations", "system_calls": "system calls"}
SUM_SHARE = 0.05
STAGE_SHARE = 0.15
STAGE_SHARE_OF_SUM = 0.02
SUM = "all stages together"
# Heartbeats, housekeeping, schedules, sweeps.
BY_CLOCK = "Other threads"


def counts(sample: dict, stages: list[str]) -> dict[tuple[str, str, str], float]:
    """The counts that have a budget: (size, kind, stage) → count per job. The sum is the stage `SUM`."""
    found = {}
    for size, rows in sample.items():
        for kind in KINDS:
            values = {stage: rows.get(stage, {}).get(kind, 0) for stage in stages}
            found |= {(size, kind, stage): value for stage, value in values.items()}
            found[size, kind, SUM] = sum(values.values())
    return found


def excesses(found: dict, allowed: dict) -> list[str]:
    """A sentence for each count that is above its budget. Both: as `counts` returns them."""
    sentences = []
    for (size, kind, stage), limit in allowed.items():
        value = found[size, kind, stage]
        if stage == BY_CLOCK:
            continue
        if stage == SUM:
            is_above = value > limit * (1 + SUM_SHARE)
        else:
            more = value - limit
            is_above = more > limit * STAGE_SHARE and more > allowed[size, kind, SUM] * STAGE_SHARE_OF_SUM
        if is_above:
            share = f"{(value / limit - 1) * 100:.1f} %" if limit else "everything"
            sentences.append(f"{size} a request, {stage}: {value:,.1f} {KINDS[kind]} per job, {share} above the "
                             f"budget of {limit:,.1f}")
    return sentences


def judged(measure, allowed: dict) -> tuple[list[dict], list[str]]:
    """Measures once, and twice more if a count is above its budget. Returns the samples and what is above by their
    medians. `allowed`: as `read` returns it."""
    stages = list(dict.fromkeys(stage for _, _, stage in allowed if stage != SUM))
    samples = [measure()]
    found = excesses(counts(samples[0], stages), allowed)
    if found:
        samples += [measure(), measure()]
        every = [counts(sample, stages) for sample in samples]
        found = excesses({key: statistics.median(one[key] for one in every) for key in allowed}, allowed)
    return samples, found


def median_sample(samples: list[dict]) -> dict:
    """The median of each count."""
    result: dict = {}
    for size in samples[0]:
        rows = list(dict.fromkeys(row for sample in samples for row in sample[size]))
        kinds = {row: dict.fromkeys(kind for sample in samples for kind in sample[size].get(row, {})) for row in rows}
        result[size] = {
            row: {kind: statistics.median(sample[size].get(row, {}).get(kind, 0) for sample in samples)
                  for kind in kinds[row]} for row in rows}
    return result


def read(path: pathlib.Path, stages: list[str], sizes, jobs: int) -> dict[tuple[str, str, str], float]:
    """The budget, as `counts` returns it. Ends the program if there is none for these stages, sizes and jobs."""
    advice = "; measure it on an idle machine with: make record-budget"
    if not path.exists():
        raise SystemExit(f"error: {path} does not exist{advice}")
    kept = json.loads(path.read_text())
    if kept["jobs"] != jobs:
        raise SystemExit(f"error: {path} is for runs of {kept['jobs']} jobs, not {jobs}{advice}")
    sample = kept["counts"]
    if sample.keys() != {str(size) for size in sizes} or any(rows.keys() != set(stages) for rows in sample.values()):
        raise SystemExit(f"error: {path} has other stages or sizes of requests than the ledger{advice}")
    return counts(sample, stages)


def write(path: pathlib.Path, sample: dict, stages: list[str], sizes, jobs: int) -> None:
    rows = {str(size): {stage: {kind: round(sample[str(size)].get(stage, {}).get(kind, 0), 3) for kind in KINDS}
                        for stage in stages} for size in sizes}
    path.write_text(json.dumps({"jobs": jobs, "counts": rows}, indent=1) + "\n")
