"""What the tests of the runtime start: processes, models, and the same without a pipeline."""
