"""The paper's experiments: run again, and compared with what it printed."""
