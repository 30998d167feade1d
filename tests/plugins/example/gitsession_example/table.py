"""An exporter of tables: comma-separated values with one row for each message of the active branch."""

import csv
import io
from collections import Counter

from gitsession import Message, Text
from gitsession.exporting import Exporter
from gitsession.formats import Outgoing


def write(out: Outgoing, notes: Counter[str]) -> str:
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["time_ms", "role", "text"])
    history = out.history()
    notes["left out: entries of other branches"] += len(out.entries) - len(history)
    for each in history:
        entry = each.entry
        if isinstance(entry, Message):
            text = "\n".join(block.text for block in entry.content if isinstance(block, Text))
            table.writerow([entry.at_ms, entry.role, text])
        else:
            notes["left out: entries that are not messages"] += 1
    return file.getvalue()


csv_table = Exporter(".csv", write)
