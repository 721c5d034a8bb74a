"""Reports: a page, figures and tables from result files alone."""

from fcfg.reports.comparison import Comparison, compare
from fcfg.reports.page import Report, write_report

__all__ = ["Comparison", "Report", "compare", "write_report"]
