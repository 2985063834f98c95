"""`find_yaml_line`: the line of a key or a list entry in a YAML file, for errors about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_yaml_line(text: str, place: Sequence[str | int]) -> int | None:
    r"""The line of a key or a list entry; if it is not in the file, that of the nearest one around it.

    >>> find_yaml_line("a:\n  - b: 1\n  - c: 2\n", ("a", 1, "c")), find_yaml_line("a: 1", ("b",))
    (3, None)
    """
    import yaml  # only those who read such files load it

    try:
        node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    line = None
    for part in place:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                continue
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
