"""The rules of the house that one look at the sources tells: who names catalogue tables, what plans take, how large folders are."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.house.exceptions import CACHES_APART, FOREIGN_TABLES, LARGE_FOLDERS, LIMITS_APART, PLANS_WITH_HANDLES, SHARED_CLASS_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKAGE = Path(__file__).parents[2] / "platform_plugin"
# It reads the lake's tables with Python's own SQLite, since to import their owners takes longer than its whole answer may.
OVERVIEW = "select.overview"
OVERVIEWS = (OVERVIEW, "select.waiting")

# Who owns each table of ours: a module, or a folder. Others ask it, and name the table nowhere.
OWNERS = {
    "platform_lake": ("lake.catalogue.catalogue", "lake.catalogue.founding", "lake.migrations.version"),
    "platform_lease": ("lake.catalogue.catalogue", "lake.upkeep.leases", "lake.upkeep.leased", OVERVIEW),
    "platform_interval": ("lake.catalogue.interval_columns",),
    "platform_relation": ("lake.catalogue.relations", *OVERVIEWS),
    "platform_dependent": ("lake.commit.dependents",),
    "platform_stream": ("lake.ring", *OVERVIEWS),
    "platform_segment": ("lake.ring", "lake.migrations.arrival_logs", *OVERVIEWS),
    "platform_arrival_log": ("lake.ring", "lake.migrations.arrival_logs", *OVERVIEWS),
    "platform_left_file": ("lake.ring",),
    "platform_stream_end": ("lake.ring",),
    "platform_gone": ("lake.commit.before_images",),
    "platform_cursor": ("lake.cursors", "lake.migrations.cursors", *OVERVIEWS),
    "platform_node": ("state.node", "lake.migrations.cursors"),
    "platform_node_use": ("state.node", "lake.migrations.cursors", *OVERVIEWS),
    "platform_gate_pass": ("lake.commit.passes", OVERVIEW),
    "platform_stall": ("lake.catalogue.stalls", OVERVIEW),
    "platform_batch": ("relations.batches",),
    "platform_source_file": ("relations.streams.feeds.sources", "relations.streams.feeds.folding"),
    "platform_source_fold": ("relations.streams.feeds.sources", "relations.streams.feeds.folding"),
    "platform_view": ("relations.views.record", "relations.views.folding", "lake.migrations.cursors", OVERVIEW),
    "platform_view_meaning": ("relations.views.record", "relations.views.folding"),
    "platform_sample": ("relations.samples.record", "relations.samples.folding"),
    "platform_pick": ("relations.samples.reservoir.picks", "relations.samples.folding", "lake.migrations.picks", *OVERVIEWS),
    "platform_ended_pick": ("relations.samples.reservoir.picks", "relations.samples.folding", "lake.migrations.picks", *OVERVIEWS),
}
# DuckLake's own tables, and what gives one that is there for each table of a lake, belong to the lake as a whole.
DUCKLAKE, LAKE = "ducklake_", ("lake", *OVERVIEWS)
FORMAT = {"lake.catalogue.catalogue.inlined_deletes", "lake.catalogue.formats.inlined_rows", "lake.catalogue.formats.files_table"}

# Where a text names a table, as SQL does.
_IN_SQL = re.compile(r'\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+"?((?:platform|ducklake)_\w+)', re.IGNORECASE)

MOST_MODULES = 20
MOST_SHARED_NAMES = 10
HANDLES = {"Lake", "Workspace", "Session", "SparkSession", "Connection", "Platform", "Writer", "Commit"}


def read_modules(package: Path) -> dict[str, ast.Module]:
    """The modules of a package by their names below it."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_text(), filename=str(path))
    return found


@cache
def package_modules() -> Mapping[str, ast.Module]:
    """Those of the package, parsed once."""
    return read_modules(PACKAGE)


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module; to look for them costs more than to look at them."""
    return tuple(ast.walk(tree))


def find_tables(modules: Mapping[str, ast.Module]) -> dict[str, str]:
    """The constants that are tables of the catalogue, such as `lake.ring.segments.STREAM`, each with the table's name."""
    found = {}
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
                made = ast.unparse(node.value.func)
                if made in ("sa.Table", "_table"):
                    name = str(ast.literal_eval(node.value.args[0]))
                    found[f"{module}.{node.targets[0].id}"] = name if made == "sa.Table" else f"{DUCKLAKE}{name}"
    return found


def named_objects(modules: Mapping[str, ast.Module], module: str) -> Iterator[str]:
    """Whatever a module names of other modules of the package, by its full name: what it imports, and attributes of modules."""
    aliases: dict[str, str] = {}
    for node in nodes_of(modules[module]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("platform_plugin"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}".removeprefix("platform_plugin.")
                aliases[alias.asname or alias.name] = whole
                yield whole
        elif isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name.removeprefix("platform_plugin.") for alias in node.names if alias.asname}
    for node in nodes_of(modules[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and aliases.get(node.value.id) in modules:
            yield f"{aliases[node.value.id]}.{node.attr}"


def texts(tree: ast.Module) -> Iterator[str]:
    """The strings of a module, its docstrings apart."""
    documented = {
        id(node.body[0].value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def find_foreign(modules: Mapping[str, ast.Module], owners: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """The tables that modules name though another owns them, by constant or in the text of a query."""
    tables = find_tables(modules)
    tables |= dict.fromkeys(FORMAT, DUCKLAKE)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module, tree in modules.items():
        named = {tables[name] for name in named_objects(modules, module) if name in tables}
        for text in texts(tree):
            named |= {word if word in owners else DUCKLAKE for word in _IN_SQL.findall(text) if word in owners or word.startswith(DUCKLAKE)}
        for table in named:
            owner = LAKE if table.startswith(DUCKLAKE) else owners.get(table, ())
            if not any(module == each or module.startswith(f"{each}.") for each in owner):
                found[module].add(table)
    return dict(found)


def test_only_the_owner_of_a_catalogue_table_names_it():
    found = find_foreign(package_modules(), OWNERS)
    assert found == {module: set(tables) for module, tables in FOREIGN_TABLES.items()}


def test_every_table_of_ours_has_an_owner_that_is_there():
    modules = package_modules()
    ours = {name for name in find_tables(modules).values() if not name.startswith(DUCKLAKE)}
    assert ours == set(OWNERS)
    assert [owner for owners in OWNERS.values() for owner in owners if owner not in modules] == []


def find_opened(modules: Mapping[str, ast.Module]) -> set[str]:
    """The lists of tables that another module does more with than to have them made: `prepare_tables(ROW_TABLES)`, `[*ROW_TABLES]`."""
    tables, lists = find_tables(modules), set()
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Name):
                parts = [ast.unparse(part) for part in node.value.elts]
                # The tables of the whole catalogue are named with its module before them.
                if parts and all(part.startswith(("*", "c.")) or f"{module}.{part}" in tables for part in parts):
                    lists.add(f"{module}.{node.targets[0].id}")
    found = set()
    for module, tree in modules.items():
        names = {name.rpartition(".")[2]: name for name in named_objects(modules, module) if name in lists}
        if not names:
            continue
        inside = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Starred)}
        for node in nodes_of(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".prepare_tables"):
                inside |= {id(given) for given in node.args}
        uses = (node for node in nodes_of(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        found |= {f"{module}: {names[node.id]}" for node in uses if node.id in names and id(node) not in inside}
    return found


def test_lists_of_tables_are_for_making_them():
    assert find_opened(package_modules()) == set()


def test_an_opened_list_of_tables_is_found():
    owner = ast.parse('ROWS = sa.Table("platform_rows", metadata)\nROW_TABLES = (ROWS,)')
    fine = "from platform_plugin.owner import ROW_TABLES\nlake.prepare_tables(ROW_TABLES)\nlake.prepare_tables([*ROW_TABLES])\n"
    assert find_opened({"owner": owner, "other": ast.parse(fine)}) == set()
    assert find_opened({"owner": owner, "other": ast.parse(f"{fine}ROW_TABLES[0].c")}) == {"other: owner.ROW_TABLES"}


@pytest.mark.parametrize(
    "source",
    [
        "from platform_plugin.owner import ROWS",
        "def f():\n    from platform_plugin.owner import ROWS as r",
        "from platform_plugin import owner as o\ndef f(): return o.ROWS.c",
        "QUERY = 'SELECT 1 FROM platform_rows'",
    ],
)
def test_a_foreign_table_is_found(source):
    modules = {"owner": ast.parse('ROWS = sa.Table("platform_rows", metadata)'), "other": ast.parse(source)}
    assert find_foreign(modules, {"platform_rows": ("owner",)}) == {"other": {"platform_rows"}}


def find_plans_with_handles(modules: Mapping[str, ast.Module]) -> set[str]:
    """The functions called plan_… one of whose parameters reads the world."""
    found = set()
    for module, tree in modules.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("plan_"):
                parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                named = {word for each in parameters if each.annotation for word in re.findall(r"\w+", ast.unparse(each.annotation))}
                if named & HANDLES:
                    found.add(f"{module}.{node.name}")
    return found


def test_plans_take_values_only():
    assert find_plans_with_handles(package_modules()) == set(PLANS_WITH_HANDLES)


def test_a_plan_that_takes_a_handle_is_found():
    sources = "def plan_a(lake: Lake): ...\nclass A:\n    def _plan_b(self, c: sa.Connection | None): ...\ndef plan_d(lake: str): ..."
    assert find_plans_with_handles({"m": ast.parse(sources)}) == {"m.plan_a", "m._plan_b"}


def find_large_folders(modules: Mapping[str, ast.Module]) -> set[str]:
    """The folders with more modules than a reader takes in at once."""
    counts = Counter(name.rpartition(".")[0] for name in modules if name)
    folders = {name for name in modules if any(other.startswith(f"{name}.") for other in modules)}
    return {folder for folder, count in counts.items() if count - sum(name.rpartition(".")[0] == folder for name in folders) > MOST_MODULES}


def test_no_folder_has_more_modules_than_a_reader_takes_in():
    assert find_large_folders(package_modules()) == set(LARGE_FOLDERS)


def test_a_large_folder_is_found():
    modules = {"room": ast.parse(""), **{f"room.m{number}": ast.parse("") for number in range(MOST_MODULES + 1)}}
    assert find_large_folders(modules) == {"room"}
    assert find_large_folders({name: tree for name, tree in modules.items() if name != "room.m0"}) == set()


def find_shared_class_names(modules: Mapping[str, ast.Module]) -> set[str]:
    """The names that classes of several modules have."""
    counts = Counter(node.name for tree in modules.values() for node in tree.body if isinstance(node, ast.ClassDef))
    return {name for name, count in counts.items() if count > 1}


def test_a_class_has_a_name_of_its_own():
    assert find_shared_class_names(package_modules()) == set(SHARED_CLASS_NAMES)
    assert len(SHARED_CLASS_NAMES) <= MOST_SHARED_NAMES


def test_a_shared_class_name_is_found():
    source = "class Rows: ...\nclass Own:\n    class Inner: ..."
    assert find_shared_class_names({"a": ast.parse(source), "b": ast.parse("class Rows: ...\nclass Inner: ...")}) == {"Rows"}


GROWING = ("lru_cache", "cache", "OrderedDict", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary")


def find_caches_apart(modules: Mapping[str, ast.Module]) -> set[str]:
    """Names at the top of modules that hold what was read: functions with a cache of their own, and collections that are empty at first."""
    apart = set()
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                marks = {part.id for mark in node.decorator_list for part in ast.walk(mark) if isinstance(part, ast.Name)}
                if marks & set(GROWING):
                    apart.add(f"{module}.{node.name}")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                made = ast.unparse(node.value)
                if isinstance(target, ast.Name) and (
                    made in {"{}", "[]", "set()", "dict()", "list()"} or made.partition("(")[0] in GROWING
                ):
                    apart.add(f"{module}.{target.id}")
    return apart


def test_what_is_cached_is_in_the_one_registry():
    assert find_caches_apart(package_modules()) == set(CACHES_APART)


def test_a_cache_apart_is_found():
    source = "_READ: dict[str, int] = {}\nNAMES = {1: 2}\n@lru_cache(maxsize=3)\ndef f(): ...\n@property\ndef g(): ...\nOPEN = WeakSet()"
    assert find_caches_apart({"a": ast.parse(source)}) == {"a._READ", "a.f", "a.OPEN"}


def find_limits_apart(modules: Mapping[str, ast.Module]) -> set[str]:
    """Names at the top of modules that say how many rows or bytes, outside of the one table."""
    apart = set()
    for module, tree in modules.items():
        for node in tree.body if module != "engine.limits" else ():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            numbers = {type(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)} if names else set()
            if numbers and numbers <= {int}:
                apart |= {f"{module}.{name}" for name in names if re.fullmatch(r"_?([A-Z]+_)*(ROWS|BYTES)(_[A-Z]+)*", name)}
    return apart


def test_limits_stand_in_one_table():
    assert find_limits_apart(package_modules()) == set(LIMITS_APART)


def test_a_limit_apart_is_found():
    source = "MOST_ROWS = 5\n_A, _PART_BYTES = 1, 4 << 20\n_ROWS_HELD: int = 3\nROWS = 'rows'\nTHROWS = 2\ndef f():\n    IN_ROWS = 1"
    assert find_limits_apart({"a": ast.parse(source), "engine.limits": ast.parse("ROWS = 1")}) == {
        "a.MOST_ROWS",
        "a._PART_BYTES",
        "a._ROWS_HELD",
    }
