"""Values: what each type of the lake is elsewhere, which values a column takes, and what stands where a row has none."""
