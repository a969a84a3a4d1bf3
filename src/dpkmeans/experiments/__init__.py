"""The paper's experiments: its data sets, its protocol, its tables, figures and theorems next to ours."""
