"""SELECT: a query over any mix of relations at one snapshot, look-ups without an engine, SHOW and DESCRIBE."""
