"""What a run proved, on disk and on a page.

Each step writes one record (`step.py`); the records of a run are gathered into a card of verified, failed,
skipped and unverified properties (`card.py`), which is shown as one self-contained page (`page.py`).

    report.write(out, "03_layer_parity", title="Layer parity", results={"parity": result}, figures={"errors": plot})
    report.write_report(out)   # card.json and index.html
"""

from mindport.report.card import STEPS, Report, gather
from mindport.report.page import write_report
from mindport.report.step import StepReport, write

__all__ = ["STEPS", "Report", "StepReport", "gather", "write", "write_report"]
