"""Which report belongs to which document."""

from __future__ import annotations

from pagedkv.report.document import Document
from pagedkv.report.model import Report
from pagedkv.report.plan import plan_dashboard
from pagedkv.report.reproduction import reproduction_report
from pagedkv.report.simulation import dashboard

REPORTS = {"simulate": dashboard, "plan": plan_dashboard, "reproduce": reproduction_report}


def report_of(document: Document) -> Report:
    """Return the report of a document of any command in REPORTS. Pure."""
    return REPORTS[document["command"]](document)
