"""Quality: suites of expectations beside a model, and whether a view still says what its query would."""

from __future__ import annotations

from platform_plugin.quality.reconcile import Reconciled, run_reconcile
from platform_plugin.quality.suite import Expectation, Suite, parse_suite
from platform_plugin.quality.validate import Finding, run_validation

__all__ = ["Expectation", "Finding", "Reconciled", "Suite", "parse_suite", "run_reconcile", "run_validation"]
