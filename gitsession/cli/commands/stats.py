"""The command ``gitsession stats``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App, Since, no_such_agent, project_identity
from gitsession.cli.options import command, option
from gitsession.cli.output import json_option, print_list, wants_json, warn
from gitsession.cli.text import changed_lines, paint, short_duration, short_number, width
from gitsession.index.current_folder import is_of
from gitsession.index.statistics import GROUPS, TIMES, Price, Statistics, StatisticsReport, statistics
from gitsession.line_text import columns, on_a_line, pad, shorten

_BAR_MIN, _KEY_MAX = 8, 40


@command()
@option("--by", type=click.Choice(GROUPS), default="day", help="Group by this. Default: day.")
@option("--since", type=Since(), help="Count only events since WHEN: a date (2026-11-21) or an age (12h, 3d, 2w).")
@option("--until", type=Since(), help="Count only events before WHEN.")
@option("--agent", metavar="AGENT", default="", help="Count only sessions of this agent.")
@option("--project", metavar="PROJECT", default="", help="Count only sessions of this project.")
@option("--model", metavar="TEXT", default="", help="Count only answers of models whose name contains TEXT.")
@option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@option("--svg", "as_svg", is_flag=True, help="Print a chart as an SVG image.")
@json_option
@click.pass_obj
def stats_command(
    app: App, by: str, since: int | None, until: int | None, agent: str, project: str, model: str, as_csv: bool,
    as_svg: bool,
) -> int:  # fmt: skip
    """Show prompts, tokens, cost, tool calls, and changed lines.

    Entries that an agent copied from another session, for example into a fork, count only there.
    """
    if as_csv + as_svg + wants_json() > 1:
        raise click.UsageError("--csv, --svg, and --json cannot be combined")
    catalogue = app.catalogue()
    sessions = catalogue.sessions()
    identity = project_identity(project)
    selected = [row for row in sessions if (not agent or row.agent == agent) and is_of(row, project, identity)]
    report = statistics(
        catalogue.db,
        (row.sid for row in selected),
        by,
        since_ms=since,
        until_ms=until,
        model=model,
        prices=prices(),
    )
    if by not in TIMES:
        report.groups.sort(key=lambda row: (-row.tokens, -row.calls, row.key))
    if as_csv:
        click.echo(_csv(by, report.groups), nl=False)
        return exits.OK
    nothing = no_such_agent(agent, sessions) or "no events found"
    if not as_svg:
        more = {"by": by, "total": {name: value for name, value in as_object(report.total).items() if name != "key"}}
        return print_list("stats", "groups", map(as_object, report.groups), _table(by, report), nothing=nothing, **more)
    if not report.groups:
        warn(nothing)
        return exits.NOTHING
    from gitsession.cli.stats_chart import chart

    click.echo(chart(by, report), nl=False)
    return exits.OK


def as_object(row: Statistics) -> dict[str, Any]:
    """Return the JSON object of a group."""
    return {**row._asdict(), "tokens": row.tokens}


def _csv(by: str, rows: Sequence[Statistics]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([by, *Statistics._fields[1:]])
    writer.writerows([(on_a_line(row.key), *row[1:]) for row in rows])
    return text.getvalue()


# ---- the table


_COLUMNS: Mapping[str, Callable[[Statistics], str]] = {
    "SESSIONS": lambda row: str(row.sessions),
    "PROMPTS": lambda row: short_number(row.prompts),
    "INPUT": lambda row: short_number(row.input_tokens),
    "OUTPUT": lambda row: short_number(row.output_tokens),
    "CACHED": lambda row: short_number(row.cache_read_tokens),
    "WRITTEN": lambda row: short_number(row.cache_write_tokens),
    "COST": lambda row: f"${row.cost:,.2f}" if row.cost else "-",
    "CALLS": lambda row: short_number(row.calls),
    "FAILED": lambda row: short_number(row.failures),
    "ACTIVE": lambda row: short_duration(row.active_seconds),
    "LINES": lambda row: changed_lines(row.added, row.removed) if row.added or row.removed else "-",
}
_DROPPED = ("WRITTEN", "FAILED", "LINES", "CACHED", "SESSIONS", "ACTIVE", "INPUT")
"""The columns that a narrow terminal does not show, the first ones first."""


def _table(by: str, report: StatisticsReport) -> Iterator[str]:
    """Yield the lines of a table with a bar for each group, and a line with the totals."""
    rows, total = report
    if not rows:
        return
    shown = {name: [_COLUMNS[name](row) for row in (*rows, total)] for name in _COLUMNS}
    shown = {name: cells for name, cells in shown.items() if any(cell != "-" for cell in cells)}
    keys = [shorten(row.key or "(unknown)", _KEY_MAX) for row in (*rows, total)]
    first = max(map(columns, [*keys, by]))

    def room() -> int:
        return width() - first - sum(2 + max(map(len, [name, *cells])) for name, cells in shown.items()) - 2

    for name in _DROPPED:
        if room() < _BAR_MIN:
            shown.pop(name, None)
    widths = {name: max(map(len, [name, *cells])) for name, cells in shown.items()}
    yield paint("  ".join([pad(by.upper(), first), *(name.rjust(widths[name]) for name in shown)]), bold=True)
    amounts = [row.calls if by == "tool" else row.tokens for row in rows]
    most, bar = max(amounts) or 1, min(max(room(), 0), 40)
    for number, key in enumerate(keys):
        cells = [cells[number].rjust(widths[name]) for name, cells in shown.items()]
        line = "  ".join(
            [paint(pad(key, first), **({"fg": "yellow"} if number < len(rows) else {"bold": True})), *cells]
        )
        size = round(bar * amounts[number] / most) if number < len(rows) else 0
        yield f"{line}  {paint('█' * size, fg='cyan')}".rstrip() if size else line


# ---- prices


def prices() -> Mapping[str, Price]:
    """Return the prices in the user's file (``git config gitsession.prices``); empty if there is none."""
    import json
    import os

    from gitsession.errors import Unavailable
    from gitsession.git import process

    path = process.user_setting("gitsession.prices")
    if not path:
        return {}
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            found = json.load(file)
        return {name: _price(price) for name, price in found.items()}
    except OSError as error:
        hint = "correct the path with `git config --global gitsession.prices FILE`"
        raise Unavailable(f"cannot read the prices in '{path}': {error.strerror}", hint=hint) from None
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        hint = 'the file must contain prices, such as {"opus": {"input": 5, "output": 25}}'
        raise Unavailable(f"cannot read the prices in '{path}': {error}", hint=hint) from None


def _price(price: Mapping[str, Any]) -> Price:
    """Return a price of the user's file. Raises ``ValueError`` if an amount is negative or not finite."""
    amounts = [float(price.get(kind, 0)) for kind in ("input", "output", "cache_read", "cache_write")]
    if not all(0 <= amount < float("inf") for amount in amounts):
        raise ValueError("a price is negative or not finite")
    return Price(*amounts)
