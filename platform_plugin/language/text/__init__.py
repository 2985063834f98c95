"""Text: tokens, places, literals, types, names and options, as Spark SQL and the platform's statements write them."""
