"""The only code that holds records: quantise once, hold, answer queries."""
