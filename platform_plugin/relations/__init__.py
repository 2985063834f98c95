"""Relations: a folder for each kind (table, stream, view, sample), and the parts that all kinds share."""
