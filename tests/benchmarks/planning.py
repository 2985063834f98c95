"""Planning without an engine: reading, plan and rules of the 22 queries of TPC-H and of look-ups, the first and every further time."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.language.query.plan import apply_sizes, plan_query, relation_name
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.places import Span
from platform_plugin.relations.bind.query import render_plan
from tests.benchmarks.report import Report, clock
from tests.relations.streams import tpch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference

COLUMNS = {
    "region": "r_regionkey r_name r_comment",
    "nation": "n_nationkey n_name n_regionkey n_comment",
    "supplier": "s_suppkey s_name s_address s_nationkey s_phone s_acctbal s_comment",
    "customer": "c_custkey c_name c_address c_nationkey c_phone c_acctbal c_mktsegment c_comment",
    "part": "p_partkey p_name p_mfgr p_brand p_type p_size p_container p_retailprice p_comment",
    "partsupp": "ps_partkey ps_suppkey ps_availqty ps_supplycost ps_comment",
    "orders": "o_orderkey o_custkey o_orderstatus o_totalprice o_orderdate o_orderpriority o_clerk o_shippriority o_comment",
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber l_quantity l_extendedprice l_discount l_tax l_returnflag l_linestatus "
    "l_shipdate l_commitdate l_receiptdate l_shipinstruct l_shipmode l_comment",
}
LOOKUPS = (
    "SELECT c_name, c_acctbal FROM customer WHERE c_custkey = :key",
    "SELECT * FROM nation WHERE n_regionkey IN (1, 2) AND n_name <> 'PERU' LIMIT 5",
)
# What `tpch.QUERIES` leaves out: queries that scan `lineitem` twice, or not at all.
OTHERS = {
    2: """
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey
          AND n_regionkey = r_regionkey AND r_name = 'EUROPE' AND ps_supplycost = (
            SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
            WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
              AND r_name = 'EUROPE')
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    11: """
        SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (
          SELECT sum(ps_supplycost * ps_availqty) * 0.0001 FROM partsupp, supplier, nation
          WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
        ORDER BY value DESC""",
    13: """
        SELECT c_count, count(*) AS custdist FROM (
          SELECT c_custkey, count(o_orderkey) AS c_count
          FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
          GROUP BY c_custkey) AS c_orders
        GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    16: """
        SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
          AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
          AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    17: """
        SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
          AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    18: """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
          AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
    21: """
        SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate
          AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
          AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
            AND l3.l_receiptdate > l3.l_commitdate)
          AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
        GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    22: """
        SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
          SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
          WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
            AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00 AND substring(c_phone, 1, 2) IN ('13', '31', '23'))
            AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode ORDER BY cntrycode""",
}
TIMES = 15


@dataclass
class _Steps:
    """The milliseconds of each step of one planning."""

    reading: float
    plan: float
    sizes: float
    again: float


def run() -> None:
    """Measure each query in a text of its own, so that nothing is known of it, and then the same text again."""
    report = Report("planning")
    every = {**tpch.QUERIES, **OTHERS}
    for number in range(TIMES):
        _steps(f"SELECT r_name FROM region -- warm up {number}")
    tpch_steps = [_medians(every[number]) for number in sorted(every)]
    lookup_steps = [_medians(text) for text in LOOKUPS]
    for what, steps in ((f"{len(every)} queries of TPC-H", tpch_steps), ("look-ups", lookup_steps)):
        for step in ("reading", "plan", "sizes", "again"):
            values = [getattr(one, step) for one in steps]
            report.add(what=what, step=step, median=median(values), most=max(values), unit="ms")
    report.add(what="queries of TPC-H without a plan", value=sum(_plan(every[number])[1].planned is None for number in every))
    report.finish()


def _medians(text: str) -> _Steps:
    runs = [_steps(f"{text} -- {number}") for number in range(TIMES)]
    return _Steps(*(median(getattr(one, step) for one in runs) for step in ("reading", "plan", "sizes", "again")))


def _facts(reference: Reference) -> RelationFacts:
    columns = tuple(Output(name=name) for name in COLUMNS[reference.name.relation].split())
    return RelationFacts(name=(relation_name(reference),), kind="table", columns=columns)


def _plan(text: str) -> tuple[Query, QueryPlan]:
    query = analyse_query(Span(text, 0, len(text)))
    return query, plan_query(query, _facts)


def _steps(text: str) -> _Steps:
    begun = clock()
    query = analyse_query(Span(text, 0, len(text)))
    read = clock()
    plan = plan_query(query, _facts)
    planned = clock()
    sizes = {relation_name(one): ScanSize(1000, is_stream=one.name.relation == "lineitem") for one in query.relations}
    sized = apply_sizes(query, plan, sizes, broadcast_bytes=1 << 26)
    names = {reference: f"v{reference.index}" for reference in query.relations}
    if sized.planned is not None and sized.planned.is_rewritten:
        render_plan(query, sized.planned, names)
    else:
        query.render(names)
    ended = clock()
    analyse_query(Span(text, 0, len(text)))
    return _Steps(*_milliseconds(read - begun, planned - read, ended - planned, clock() - ended))


def _milliseconds(*seconds: float) -> Iterable[float]:
    return (1000 * value for value in seconds)
