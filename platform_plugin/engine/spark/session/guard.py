"""`limit_task_bytes`: a query that fails in time when its result is too large for the server's memory.

Spark Connect gathers every partition of a result in the JVM's heap before it sends the first row of it, and nothing stops a partition that
does not fit. So a condition on the size of rows is put on top. No SQL expression can add up sizes over the rows of a task, but rows can be
counted: a task gives up at row n if n rows as long as this one are more than the bound. However sizes are distributed, what a task has
gathered by then is at most the bound times (1 + ln n), and the bound itself where rows are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOO_LARGE = "platform: this result is larger than what is sent at once"
"""The message with which a guarded query fails."""

# Looking at every row would cost as much as converting it. The text of a row is never much shorter than a half of its Arrow form.
_EVERY = 16
# Each counter counts its own calls, so both must be asked for every row.
_WITHIN = """if(
  (monotonically_increasing_id() & 8589934591) + 1
  > if((monotonically_increasing_id() & 8589934591) % {every} = 0, {bytes} / 2 / octet_length(CAST(struct(*) AS STRING)), 1e18D),
  raise_error('{message}'),
  true)"""


def limit_task_bytes(frame: DataFrame, *, task_bytes: int) -> DataFrame:
    """The same rows, or a failure with `TOO_LARGE` once a task has gathered about `task_bytes` of them."""
    return frame.filter(f.expr(_WITHIN.format(every=_EVERY, bytes=task_bytes, message=TOO_LARGE)))
