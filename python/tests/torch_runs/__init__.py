"""Processes and models that the tests of the runtime start, and the same without a pipeline."""
