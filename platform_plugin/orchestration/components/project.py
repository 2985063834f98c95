"""What the other components of a project declare, so that each relation is one asset and each sensor exists once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import dagster as dg
from dagster.components.core.decl import PythonFileDecl

from platform_plugin.errors import InvalidStatement, PlatformError, combine_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from dagster.components.core.component_tree import ComponentTree
    from dagster.components.core.decl import ComponentDecl

    from platform_plugin.orchestration.assets.translator import Translator
    from platform_plugin.orchestration.components.model import Model

    Some = TypeVar("Some", bound=dg.Component)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectDeclarations:
    """The assets of other components by key, and the relations of this package's components by name, both in lower case.

    Each has the place that declares it.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def place(self, name: str, key: dg.AssetKey) -> str | None:
        """The place that declares a relation, or an asset with the same key."""
        return self.names.get(name.lower()) or self.keys.get(key.to_user_string().lower())


def find_components(context: dg.ComponentLoadContext, of_type: type[Some]) -> list[Some]:
    """The components of a type in the whole project, in the order in which they are loaded; none without a project."""
    tree = _tree(context)
    return tree.get_all_components(of_type) if tree is not None else []


def find_declared(
    context: dg.ComponentLoadContext, *, own: Collection[type[dg.Component]], apart: Iterable[dg.Component]
) -> ProjectDeclarations:
    """What all components but those `apart`, and the project's Python files, declare; components of the types `own` also by relation name.

    This builds their definitions, which Dagster does once and caches.
    """
    keys: dict[str, str] = {}
    names: dict[str, str] = {}
    left_out = {id(component) for component in apart}
    tree = _tree(context)
    for decl in _leaves(tree.find_root_decl()) if tree is not None else ():
        component = tree.load_structural_component_at_loc(decl.loc) if tree is not None else None
        if tree is None or id(component) in left_out:
            continue
        place = decl.loc.get_display_key(tree.defs_module_path)
        if isinstance(decl, PythonFileDecl) and decl.decls:
            # Its components are leaves of their own; what else is in it is not.
            found = dg.load_definitions_from_module(decl.context.load_defs_relative_python_module(decl.context.path))
        else:
            found = tree.build_defs_at_path(decl.loc)
        for spec in _specs(found):
            keys.setdefault(spec.key.to_user_string().lower(), place)
            name = spec.metadata.get("dagster/table_name")
            if isinstance(name, str) and isinstance(component, tuple(own)):
                names.setdefault(name.lower(), place)
    return ProjectDeclarations(keys=keys, names=names)


@runtime_checkable
class FileReader(Protocol):
    """A component whose files can be read without its definitions."""

    def find_errors(self, path: Path, file: str) -> Iterator[PlatformError]:
        """The errors of its files; `path` is the component's place, `file` the file that declares it."""


def file_errors(context: dg.ComponentLoadContext, error: PlatformError) -> PlatformError:
    """The error of one component's files, combined with those of all other components, each once."""
    tree = _tree(context)
    found: list[PlatformError] = []
    for decl in _leaves(tree.find_root_decl()) if tree is not None else ():
        try:
            component: Any = tree.load_structural_component_at_loc(decl.loc) if tree is not None else None
        except Exception:  # noqa: BLE001, S112  Dagster tells of a component that it can't load
            continue
        if isinstance(component, FileReader):
            found += component.find_errors(Path(decl.context.path), _yaml_file(Path(decl.context.path), context.project_root))
    # What a parser said to it would stand last, a screen below the place in the file.
    return (combine_errors(found) or error).with_traceback(None)


def _yaml_file(path: Path, root: Path) -> str:
    file = path if path.is_file() else path / "defs.yaml"
    return str(file.relative_to(root) if file.is_relative_to(root) else file)


def refuse_duplicates(models: Iterable[Model], declared: ProjectDeclarations, translator: Translator) -> None:
    """Refuse a relation that both a file and another component declare."""
    for model in models:
        place = declared.place(str(model.name), translator.asset_key(model.name))
        if place is not None:
            raise InvalidStatement(
                f'relation "{model.name}" is declared twice', detail=f"in {model.file} and by {place}", hint="keep one of the two"
            )


def _tree(context: dg.ComponentLoadContext) -> ComponentTree | None:
    # A context that is made by hand, as tests do, stands for no project.
    return getattr(context, "component_tree", None)


def _leaves(decl: ComponentDecl[Any]) -> Iterator[ComponentDecl[Any]]:
    """The components that hold no others, and Python files."""
    children = list(decl.iterate_child_component_decls())
    if not children or isinstance(decl, PythonFileDecl):
        yield decl
    for child in children:
        yield from _leaves(child)


def _specs(definitions: dg.Definitions) -> Iterator[dg.AssetSpec]:
    for asset in definitions.assets or ():
        if isinstance(asset, dg.AssetsDefinition):
            yield from asset.specs
        elif isinstance(asset, dg.AssetSpec):
            yield asset
        elif isinstance(asset, dg.SourceAsset):
            yield dg.AssetSpec(asset.key)
