"""Reports: a page, figures and tables from result files alone."""

from fcfg.reports.comparison import Comparison, compare
from fcfg.reports.comparison_page import ComparisonReport, write_comparison
from fcfg.reports.comparison_verdict import comparison_reading
from fcfg.reports.page import Report, write_report
from fcfg.reports.tables import write_tables
from fcfg.reports.verdict import reading

__all__ = [
    "Comparison",
    "ComparisonReport",
    "Report",
    "compare",
    "comparison_reading",
    "reading",
    "write_comparison",
    "write_report",
    "write_tables",
]
