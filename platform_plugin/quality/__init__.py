"""Quality: suites of expectations beside a model, and whether a view still says what its query would."""
