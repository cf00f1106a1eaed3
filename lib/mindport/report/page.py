"""The report as one page: self-contained, readable offline and on paper, every text escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from pathlib import Path

from mindport.errors import FileError
from mindport.files import write_json, write_text
from mindport.report.card import Report, gather
from mindport.report.step import StepReport
from mindport.report.style import CSS
from mindport.results import Property
from mindport.tables import STATES, Table, unbroken

MARKS = {"verified": "✓", "failed": "✗", "skipped": "»", "not verified": "○"}
LONG = 12  # rows; a longer table is folded
ENVIRONMENT = "00"  # the step whose tables are all folded: its lines on the card say what they found


def write_report(out: str | Path) -> Report:
    """Gather the records of a run into `card.json` and `index.html`.

    Raises:
        FileError: a record is damaged, a plot is missing, or the disk refuses.
    """
    report = gather(out)
    write_json(report.out / "card.json", report.card())
    write_text(report.out / "index.html", render(report))
    return report


def render(report: Report) -> str:
    """The whole page."""
    body = [_header(report), _card(report), *(_step(step) for step in report.steps), _footer(report)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(_name(report))}: MindPort report</title><style>{CSS}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _header(report: Report) -> str:
    state = "good" if report.ok else "bad"
    counts = "".join(
        f'<li class="{STATES[name] if number else "none"}"><b>{number}</b> {name}</li>'
        for name, number in report.counts().items()
    )
    return (
        f'<header><p class="kicker">MindPort report</p><h1>{_text(_name(report))}</h1>'
        f'<p class="verdict {state}">{_verdict(report)}</p><ul class="strip">{counts}</ul>'
        f'<p class="where">{_where(report)}</p>{_steps_bar(report)}</header>'
    )


def _verdict(report: Report) -> str:
    failed = [line.name for line in report.properties() if line.state == "failed"]
    if failed:
        return f"✗ Failed: {_text(failed[0])}" + f" (and {len(failed) - 1} more)" * (len(failed) > 1)
    if not report.ok:
        return f"✗ Not verified: {_text(report.headline())}"
    untried = report.counts()["skipped"] + report.counts()["not verified"]
    steps = f" (no record of step {', '.join(report.missing())})" if report.missing() else ""
    return f"✓ Everything that was tried holds; {untried} properties were not tried{steps}"


def _where(report: Report) -> str:
    if report.device() == "none":
        return "Nothing has been run yet."
    ascend = "" if "Ascend" in report.device() else " Nothing on this page was run on an Ascend NPU."
    weights = f"<br>Weights: {_text(str(report.run['weights']))}" if report.run.get("weights") else ""
    return f"Run on: <b>{_text(report.device())}</b>, {_text(_machine(report.steps[-1]))}.{ascend}{weights}"


def _machine(step: StepReport) -> str:
    machine = step.machine
    return f"{machine.get('cores')} cores, {machine.get('memory')} memory, {machine.get('os')} {machine.get('arch')}"


def _steps_bar(report: Report) -> str:
    links = [f'<a href="#{_text(step.step)}">{_mark(step.ok)} {_text(step.title)}</a>' for step in report.steps]
    return f"<nav>{''.join(links)}</nav>" if links else ""


def _card(report: Report) -> str:
    groups = "".join(
        f'<tbody><tr><th colspan="4" scope="rowgroup">{_text(name)}</th></tr>{"".join(map(_line, lines))}</tbody>'
        for name, lines in report.groups()
        if lines
    )
    return (
        '<section id="card"><h2>What was shown</h2><table class="card"><thead><tr><th>State</th><th>Property</th>'
        f"<th>Figure</th><th>How, or why not</th></tr></thead>{groups}</table></section>"
    )


def _line(line: Property) -> str:
    backend = f" <small>{_text(line.backend)}</small>" if line.backend != "none" else ""
    return (
        f'<tr><td class="state {STATES[line.state]}">{MARKS[line.state]} {line.state}</td><td>{_text(line.name)}</td>'
        f"<td>{unbroken(_text(line.figure)) or '&ndash;'}</td><td>{unbroken(_text(line.how))}{backend}</td></tr>"
    )


def _step(step: StepReport) -> str:
    headlines = "".join(f"<p>{unbroken(_text(sentence))}</p>" for sentence in step.headlines())
    return (
        f'<section id="{_text(step.step)}"><h2><span class="{"good" if step.ok else "bad"}">{_mark(step.ok)}</span> '
        f"{_text(step.title)}</h2>{headlines}{_figures(step)}{_evidence(step)}"
        f"{_provenance(step)}</section>"
    )


def _figures(step: StepReport) -> str:
    return "".join(_figure(step, name) for name in step.figures)


def _figure(step: StepReport, name: str) -> str:
    caption = _text(Path(name).stem.removeprefix(f"{step.step}-").replace("-", " "))
    try:
        data = base64.b64encode((step.out / name).read_bytes()).decode("ascii")
    except OSError as error:
        raise FileError("a plot of the report cannot be read", where=step.out / name, got=error) from None
    return f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"></figure>'


def _evidence(step: StepReport) -> str:
    every = step.step.startswith(ENVIRONMENT)
    return "".join(_table(table, folded=every or len(table.rows) > LONG) for table in step.evidence)


def _table(table: Table, folded: bool) -> str:
    """In sight, or one click away; a folded table that holds a fault is open."""
    whole = f'<div class="wide">{table.html(limit=None)}</div>'
    if not folded:
        return whole
    bad = any(STATES.get(str(cell)) == "bad" for row in table.rows for cell in row)
    summary = f"{_text(table.title)} · {len(table.rows)} row{'s' * (len(table.rows) != 1)}"
    return f"<details{' open' * bad}><summary>{summary}</summary>{whole}</details>"


def _provenance(step: StepReport) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in step.versions.items())
    rows = (("Command", f"<code>{_text(step.command)}</code>"), ("Versions", _text(versions)),
            ("Machine", _text(f"{step.machine.get('device')}; {_machine(step)}")), ("Written", _text(step.written)),
            ("Files", _links(step)))  # fmt: skip
    return f"<dl>{''.join(f'<dt>{term}</dt><dd>{text}</dd>' for term, text in rows)}</dl>"


def _links(step: StepReport) -> str:
    """The record, and the executed notebook where there is one; relative, so that the directory can move."""
    notebooks = sorted((step.out / "notebooks").glob(f"{step.step[:2]}*"))
    files = [step.out / f"{step.step}.json", *(path for path in notebooks if path.suffix in (".html", ".ipynb"))]
    names = [path.relative_to(step.out).as_posix() for path in files]
    return ", ".join(f'<a href="{_text(name)}">{_text(name)}</a>' for name in names)


def _footer(report: Report) -> str:
    command = report.run.get("command")
    made = f"Made by <code>{_text(str(command))}</code>. " if command else "Made cell by cell. "
    return f'<footer><p>{made}The same in JSON: <a href="card.json">card.json</a>.</p>{_minutes(report)}</footer>'


def _minutes(report: Report) -> str:
    times: Iterable[str] = (
        f"{entry['name']} {entry['minutes']:.1f} min"
        for entry in report.run.get("notebooks", ())
        if isinstance(entry.get("minutes"), (int, float))
    )
    return f"<p>{_text(', '.join(times))}</p>"


def _name(report: Report) -> str:
    return Path(str(report.run.get("model") or report.out.resolve())).name


def _mark(ok: bool) -> str:
    return "✓" if ok else "✗"


def _text(value: str) -> str:
    return html.escape(value)
