"""An asset in plain Python that takes views at one snapshot, and the schedule that asks for it and for yesterday's sales."""

import dagster as dg
import pandas as pd

from platform_plugin.orchestration import ContinuousViewInput

SHARE = 0.2
"""Which part of the customers is written to."""


@dg.asset(
    ins={
        "value": ContinuousViewInput("customer_value", columns=["customer_id", "spent"]),
        "customers": ContinuousViewInput("customers", columns=["id", "country"]),
    },
    group_name="marketing",
    owners=["team:crm"],
    kinds={"python", "pandas"},
)
def campaign(context: dg.AssetExecutionContext, value: pd.DataFrame, customers: pd.DataFrame) -> dg.MaterializeResult[None]:
    """The best customers of each country, whom the next campaign writes to. Both arguments are of one snapshot, which the log states."""
    joined = value.merge(customers, left_on="customer_id", right_on="id")
    ranks = joined.groupby("country")["spent"].rank(ascending=False, pct=True)
    chosen = joined[ranks <= SHARE]
    counts = chosen.groupby("country").size()
    context.log.info("%s of %s customers are written to", len(chosen), len(customers))
    return dg.MaterializeResult(metadata={"customers": len(chosen), "by_country": {country: int(n) for country, n in counts.items()}})


nightly = dg.define_asset_job("nightly", selection=["campaign", "missing_products"], description="What is made once a night.")

every_night = dg.ScheduleDefinition(job=nightly, cron_schedule="0 3 * * *", execution_timezone="Europe/Berlin")
