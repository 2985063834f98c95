"""Quality: suites of expectations and gates, tests of views by cases, and reconciliation of views."""
