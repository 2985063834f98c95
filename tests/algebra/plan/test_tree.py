from __future__ import annotations

from platform_plugin.algebra.plan.tree import draw_plan
from platform_plugin.operators.group.split import read_plan
from tests.relations.views.composed import RELATIONS

TREE = """\
limit 3
└─ sort by n
   └─ union all
      ├─ distinct
      │  └─ window n, rank() OVER (ORDER BY g.n) as r
      │     └─ left join on g.uid = v.x
      │        ├─ as g
      │        │  └─ project uid, grouped.count as n
      │        │     └─ as grouped
      │        │        └─ group by uid in 2 grouping sets into count(*) as count
      │        │           └─ filter posts.uid IN (…)
      │        │              ├─ scan stream main.posts
      │        │              └─ project id
      │        │                 └─ scan table main.users
      │        └─ 1 rows as v
      └─ project weight, 0
         └─ generate explode(array(1)) as e
            └─ scan stream main.likes"""


def test_every_operator_is_drawn_below_what_it_feeds() -> None:
    query = """WITH g AS (SELECT uid, count(*) AS n FROM posts WHERE uid IN (SELECT id FROM users) GROUP BY ROLLUP(uid))
        SELECT DISTINCT g.n, rank() OVER (ORDER BY g.n) AS r FROM g LEFT JOIN VALUES (1) AS v(x) ON g.uid = v.x
        UNION ALL SELECT weight, 0 FROM likes LATERAL VIEW explode(array(1)) e AS y ORDER BY 1 LIMIT 3"""
    assert draw_plan(read_plan(query, RELATIONS)) == TREE
