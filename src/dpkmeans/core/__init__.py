"""Values: no records, no noise, no files. Imports `errors` and, to save and load a release, `storage`."""
