"""Lines of YAML files: where a key or an entry of a list stands, for errors about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_yaml_line(text: str, place: Sequence[str | int]) -> int | None:
    r"""The line of a key or of an entry of a list; of the nearest one around it where that is not in the file.

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
