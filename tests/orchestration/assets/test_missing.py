"""Names that there is nothing of are told when files are loaded, before anything runs."""

from __future__ import annotations

import pytest

from platform_plugin import Platform
from platform_plugin.errors import CatalogueError
from platform_plugin.orchestration.assets.inventory import Inventory, read_inventory
from platform_plugin.orchestration.assets.missing import find_missing
from platform_plugin.orchestration.assets.tracing import Tracing
from platform_plugin.orchestration.components.model import read_models


def missing(project, inventory=None, elsewhere=lambda _: False):
    models, inventory = read_models(project.folder), inventory or Inventory()
    return list(find_missing(models, inventory, Tracing(models, inventory), elsewhere))


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "CREATE VIEW v AS SELECT uid, sum(score) AS s FROM postz GROUP BY uid",
            'file "v.sql": relation "main.postz" is in no file and not in the lake; did you mean main.posts?',
        ),
        ("CREATE VIEW v AS SELECT uid FROM zzz", 'file "v.sql": relation "main.zzz" is in no file and not in the lake'),
        (
            "CREATE SAMPLE v ON postz SIZE 5",
            'file "v.sql": relation "main.postz" is in no file and not in the lake; did you mean main.posts?',
        ),
        (
            "CREATE VIEW v AS\nSELECT uid, sum(scoer) AS s FROM posts GROUP BY uid",
            'file "v.sql": line 2: column "scoer" does not exist; did you mean score?',
        ),
        (
            "CREATE TABLE v AS SELECT posts.scoer FROM posts",
            'file "v.sql": line 1: column "posts.scoer" does not exist; did you mean score?',
        ),
    ],
)
def test_a_name_that_is_nowhere_is_told(shop, statement, told):
    assert missing(shop) == []
    shop.write(v=statement)
    assert missing(shop) == [told]


def test_what_the_lake_has_or_others_declare_is_not_missing(shop):
    shop.write(v="CREATE VIEW v AS SELECT uid FROM others")
    assert len(missing(shop)) == 1
    assert missing(shop, elsewhere=lambda name: name.relation == "others") == []
    assert missing(shop, Inventory(absence=CatalogueError("it can't be read"))) == []
    with Platform.create(shop.lake) as platform:
        platform.execute("CREATE TABLE others (uid INT)")
    assert missing(shop, read_inventory(str(shop.lake))) == []
