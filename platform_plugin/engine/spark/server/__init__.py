"""The platform server: the process that owns a Spark driver, how it is started, found, asked and replaced."""
