"""Text: tokens of Spark SQL, places in a source, literals, types and names as they are written."""
