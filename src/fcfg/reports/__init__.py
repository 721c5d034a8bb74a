"""Reports: from result files alone to a page, figures and tables that anyone can look at."""

from fcfg.reports.tables import write_tables
from fcfg.reports.verdict import reading
from fcfg.reports.writing import Report, write_report

__all__ = ["Report", "reading", "write_report", "write_tables"]
