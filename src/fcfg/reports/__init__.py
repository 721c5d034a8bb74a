"""Reports: from result files alone to a page, figures and tables that anyone can look at."""
