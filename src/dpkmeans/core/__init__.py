"""Values: no records, no noise, no files. Imports `errors` only; a `Release` reaches its files and report lazily."""
