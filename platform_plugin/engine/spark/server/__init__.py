"""The platform server: the process with the Spark driver, and how clients start, find, ask, replace and stop it."""
