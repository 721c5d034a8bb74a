"""Reports: a page, figures and tables from result files alone."""

from fcfg.reports.page import Report, write_report
from fcfg.reports.tables import write_tables
from fcfg.reports.verdict import reading

__all__ = ["Report", "reading", "write_report", "write_tables"]
