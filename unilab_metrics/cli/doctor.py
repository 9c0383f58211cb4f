"""``doctor``: what is wrong with a run, and how to put it right."""

from __future__ import annotations

import json
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.output import say, say_json
from unilab_metrics.errors import ExitCode

_EPILOG = """\b
Examples
  unilab-metrics doctor                 the newest live run, or the machine if there is none
  unilab-metrics doctor logs/sac/cart_reach/2026-03-09_18-30-00_numpy
  unilab-metrics doctor RUN_DIR --json | jq '.findings[] | select(.level == "error")'

\b
Exit codes
  0  nothing is wrong; there may be information, warnings, and what could not be looked at
  3  no run in RUN_DIR
  8  something is wrong: there are errors among the findings
"""


_AGAIN = "as above"


@click.command(epilog=_EPILOG)
@click.argument("run_dir", type=click.Path(file_okay=False, path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.option("-v", "--verbose", is_flag=True, help="Also what is well.")
def doctor(run_dir: Path | None, *, as_json: bool, verbose: bool) -> int:
    """Examine the run in RUN_DIR: processes, sockets, keys, backlog, versions, logs, disk.

    Each finding says what is wrong and how to fix it. Only reads: nothing is started, stopped,
    removed or changed. Works on live, ended, crashed, empty and damaged runs.
    """
    from unilab_metrics.run.doctor.examination import examine_machine, examine_run
    from unilab_metrics.run.doctor.finding import ERROR, INFO, OK, worst
    from unilab_metrics.transport.registry import look_for_live_run
    from unilab_metrics.wording import counted

    if run_dir is None:
        live = look_for_live_run()
        found = live.run_dir if live is not None else None
    else:
        found = existing_run(run_dir).absolute()
    findings = list(examine_machine() if found is None else examine_run(found))
    level = worst(findings)
    if as_json:
        report = {
            "run_dir": None if found is None else str(found),
            "level": level,
            "findings": [finding.fields() for finding in findings],
        }
        say_json(json.dumps(report, indent=2))
    else:
        chosen = "newest live run: " if run_dir is None else ""
        say("no live run on this machine" if found is None else f"{chosen}{found}")
        told: set[str] = set()
        for finding in findings:
            if verbose or not (finding.level == OK or finding.is_detail):
                is_known = bool(finding.fix) and finding.fix in told
                told.add(finding.fix)
                for line in (finding._replace(fix=_AGAIN) if is_known else finding).lines():
                    say(line)
        well = sum(finding.level == OK for finding in findings)
        judged = sum(finding.level != INFO for finding in findings)
        hidden = "" if verbose or not well else " (-v shows them)"
        say(f"{well} of {counted(judged, 'check')} passed{hidden}")
    return ExitCode.UNHEALTHY if level == ERROR else ExitCode.OK
