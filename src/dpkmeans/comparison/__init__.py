"""Methods side by side on one's own records. What is measured is for the data holder alone."""
