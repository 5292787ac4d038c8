"""Training where the rows are: on a GPU, or in any array library, by matrix products."""
