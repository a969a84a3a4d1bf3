"""The only code that holds records."""
