"""The run passport: build, schema and renderings; pure functions."""
