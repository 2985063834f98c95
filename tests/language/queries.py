"""Queries that Spark 4.3 can parse, for tests that need many."""

QUERIES = [
    (
        "select l_returnflag, sum(l_quantity) from lineitem where l_shipdate <= date '1998-12-01' - interval '90' "
        "day group by l_returnflag order by 1"
    ),
    (
        "select s_acctbal from part, supplier, partsupp, nation, region where p_partkey = ps_partkey and "
        "ps_supplycost = (select min(ps_supplycost) from partsupp, supplier, nation, region where p_partkey = "
        "ps_partkey) limit 100"
    ),
    (
        "select o_orderpriority, count(*) from orders where o_orderdate >= date '1993-07-01' and exists (select * "
        "from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) group by o_orderpriority"
    ),
    (
        "select supp_nation, sum(volume) from (select n1.n_name as supp_nation, l_extendedprice * (1 - l_discount) "
        "as volume from supplier, lineitem, orders, customer, nation n1, nation n2 where extract(year from "
        "l_shipdate) = 1995) as shipping group by supp_nation"
    ),
    (
        "select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) from customer left outer "
        "join orders on c_custkey = o_custkey and o_comment not like '%special%requests%' group by c_custkey) as "
        "c_orders (c_custkey, c_count) group by c_count"
    ),
    (
        "with revenue (supplier_no, total_revenue) as (select l_suppkey, sum(l_extendedprice) from lineitem group "
        "by l_suppkey) select s_suppkey from supplier, revenue where s_suppkey = supplier_no and total_revenue = "
        "(select max(total_revenue) from revenue)"
    ),
    (
        "select cntrycode from (select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from customer where "
        "c_acctbal > (select avg(c_acctbal) from customer where substring(c_phone, 1, 2) in ('13', '31')) and not "
        "exists (select * from orders where o_custkey = c_custkey)) as custsale"
    ),
    (
        "with a as (with b as (select * from x) select * from b), b as (select * from a join y using (i)) select * "
        "from a natural join b cross join b as c full outer join z on true"
    ),
    "with t as (select * from t) select * from t",
    "with recursive r(n) as (values (1) union all select n+1 from r where n < 5) select * from r join posts",
    "select * from a left semi join b on a.x=b.x left anti join c on c.y=a.y",
    "select * from (a join b on a.x = b.x) join c",
    "(select * from a) union (select * from b) intersect select * from c except table d minus (table e)",
    "from a select x where x > 3",
    "from a join b on a.i = b.i select a.x, b.y limit 3",
    "table s.t",
    "select * from values (1,2),(3,4) as t(a,b), u",
    "select a, b from posts lateral view outer explode(xs) e as x lateral view posexplode(ys) f as i, y where x > 1",
    "select * from a, lateral (select * from b where b.x = a.x) z, lateral explode(a.xs) as e(v)",
    "select window(at, '5 minutes').start, count(*) from a group by window(at, '5 minutes') window w as (order by z)",
    "select * from a tablesample (10 percent) x join b tablesample (5 rows)",
    "select * from a pivot (sum(v) for k in ('x' as xx, 'y'))",
    "select * from a unpivot (v for k in (c1, c2)) as u join b",
    ("select sum(x) over (partition by y order by z rows between 3 preceding and current row) from a window w as (order by z)"),
    (
        "select x, (select max(y) from b where b.i = a.i) m from a where x in (select i from c) and y not in "
        "(select j from d) or exists (from e select 1)"
    ),
    "select case when exists (select 1 from a) then (select 1 from b) end",
    "select transform(xs, x -> x + (select max(v) from b)) from a",
    "select cast(x as struct<a:int, b:array<string>>), y::int, z[0], m['k'], struct(*) from a",
    "select /*+ broadcast(a), repartition(3) */ * from a",
    "select distinct a.* except (x), b.y from a join b using (i, j)",
    ("select count(*) filter (where x > 1), count(distinct y) from a group by grouping sets ((x), (y), ()) having count(*) > 1"),
    "select x from a group by all order by all",
    "select x from a group by x with rollup",
    "select x from a group by cube (x, y)",
    "select * from a where x rlike '^a' and y ilike 'b%' and z like any ('a', 'b')",
    "select from_json(x, 'a int') as j, j.a from a qualify 1=1",
    (
        "select named_struct('a', 1).a, array(1,2)[0], map('a', 1)['a'], date '2020-01-01', timestamp '2020-01-01 "
        "00:00:00', x'1F', 1.5BD, 5L, 1e3, .5, interval '1-2' year to month, interval 3 days 2 hours from t"
    ),
    "select `a b`, `c``d` from `my table` as `t 1` join `s`.`x.y` on `t 1`.`a b` = `x.y`.i",
    "select * from stream where stream.x = 1",
    "select * from a as stream",
    "select date, timestamp, version, stream, at, table1 from a",
    "select a from b -- c\n, d /* , e /* , f */ , g */ , h",
    "select 'from x', \"join y\" from a",
    "select * from a order by x nulls last, y desc limit 10 offset 5",
    "select * from a sort by x",
    "select * from a distribute by x",
    "select * from a cluster by x",
    "select trim(both 'x' from y), position('a' in b), overlay(a placing b from 3 for 2), extract(dow from d) from a",
    "select * from a where x is not distinct from y",
    "select a.b.c.d.e from a",
    "select try_cast(x as int), x div 2, x % 3, x <=> y, !z, ~x, x ^ y, x | y, x & y, x || y from a",
    "select any_value(x), percentile_cont(0.5) within group (order by x) from a",
    "select * from a join b on a.x = b.x and a.y between b.lo and b.hi where (a.x, a.y) in ((1,2),(3,4))",
    "select listagg(x, ',') within group (order by y) from a",
    "select * from a, b join c on b.x = c.x, d left join e on true",
    "select * from range(5) r join a on r.id = a.id",
    "select :p, x from a where y = :q and z in (:r, :s) limit :n",
    "select 1 as `from`, `select` from `table`",
    "select * from a at where at.x = 1",
    "select * from a version where version.x = 1",
    "select x y from a b",
    "select interval 1 day + d, d + interval '5 days' from a, b",
    "select * from (values (1)) v(x), lateral (select x + 1) w, (table t)",
    "select a.x from main.a join main.b on main.a.x = main.b.x",
    "select * from a where x in (1,2,3) and y in (select 1 union select k from m)",
    "select 'a' 'b' \"c\" from x",
    "select 1 -- \\\n from not_a_table\n from a",
    "select r'\\' from a",
    'select "a""b" from a',
]
