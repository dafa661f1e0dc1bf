"""The YAML files of an inventory, before Ansible reads them: it only warns of much that loses hosts or values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from qwenhost.records.errors import QwenhostError

VARIABLE_FOLDERS = ("group_vars", "host_vars")

ENDINGS = (".yml", ".yaml", ".json")
"""Of a file of variables, Ansible reads one without any ending, too."""

SECTIONS = ("hosts", "children", "vars")

MERGE = "tag:yaml.org,2002:merge"
TEXT = "tag:yaml.org,2002:str"
NOTHING = "tag:yaml.org,2002:null"

LIKE_A_SECTION = 0.7
"""How near (difflib) a key must be to a section's name to be a slip of it; others may hold anchors."""


def refuse_broken_files(path: Path) -> None:
    """Look through the files of the inventory at `path`. Raises QwenhostError with file, line and a hint."""
    for file in _inventory_files(path):
        tree = _composed(file)
        if isinstance(tree, yaml.SequenceNode):
            _refuse(file, tree, "a list, where an inventory has groups", "see inventories/example/hosts.yml")
        if isinstance(tree, yaml.MappingNode) and "plugin" not in _keys(tree):
            _Groups(file).look_at(tree)
    for file in _variable_files(path):
        tree = _composed(file)
        if isinstance(tree, yaml.SequenceNode):
            _refuse(file, tree, "a list, where variables are", "write NAME: VALUE, without a dash")


def refuse_lost_groups(path: Path, groups: frozenset[str]) -> None:
    """Refuse a file of variables whose group is only spelled otherwise; Ansible would pass over it."""
    names = {_folded(group): group for group in groups}
    for file in sorted(_folder(path).joinpath("group_vars").glob("*")):
        group = names.get(_folded(file.stem))
        if group and file.stem not in groups and not file.name.startswith("."):
            raise QwenhostError(
                f"{file}: no group is called {file.stem!r}, so nobody reads it", hint=f"did you mean {group}?"
            )


def _folded(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum()).removesuffix("s")


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _inventory_files(path: Path) -> Iterator[Path]:
    found = sorted(path.glob("*")) if path.is_dir() else [path]
    yield from (file for file in found if file.is_file() and file.suffix in ENDINGS)


def _variable_files(path: Path) -> Iterator[Path]:
    for name in VARIABLE_FOLDERS:
        for file in sorted(_folder(path).joinpath(name).rglob("*")):
            hidden = file.name.startswith(".") or file.name.endswith("~")
            if file.is_file() and not hidden and file.suffix in (*ENDINGS, ""):
                yield file


def _composed(path: Path) -> yaml.Node | None:
    """Return the tree of a file. Raises QwenhostError for broken YAML, and for a key that stands twice."""
    try:
        tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        hint = "indent with blanks" if "'\\t'" in str(error.problem) else ""
        raise QwenhostError(f"{path}{line}: broken YAML: {error.problem}", hint=hint) from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise QwenhostError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    _refuse_twice(path, tree, set())
    return tree


def _refuse_twice(path: Path, node: yaml.Node | None, seen: set[int]) -> None:
    """Refuse a mapping with one key twice, of which only the last would count; `seen` are nodes looked at."""
    if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
        return
    seen.add(id(node))
    if not isinstance(node, yaml.MappingNode):
        for item in node.value:
            _refuse_twice(path, item, seen)
        return
    names: set[tuple[str, str]] = set()
    for key, value in node.value:
        name = (key.tag, str(key.value))
        if name in names and key.tag != MERGE:
            _refuse(path, key, f"{key.value} stands twice, and only the last would count", "keep one of them")
        names.add(name)
        _refuse_twice(path, value, seen)


@dataclass
class _Groups:
    """Looks through the groups of one file."""

    path: Path
    within: list[int] = field(default_factory=list)
    """The groups that a group stands in; one of them in itself has no end."""

    def look_at(self, groups: yaml.MappingNode) -> None:
        for name, group in groups.value:
            if name.value in SECTIONS:
                told = f"{name.value}, where a group is"
                _refuse(self.path, name, told, "put it below a group, such as all:")
            if isinstance(group, yaml.MappingNode):
                self._look_at_group(str(name.value), group)

    def _look_at_group(self, name: str, group: yaml.MappingNode) -> None:
        if id(group) in self.within:
            _refuse(self.path, group, f"group {name} stands in itself")
        self.within.append(id(group))
        for key, section in group.value:
            self._look_at_section(name, key, section)
        self.within.pop()

    def _look_at_section(self, group: str, key: yaml.Node, section: yaml.Node) -> None:
        near = difflib.get_close_matches(str(key.value), SECTIONS, 1, LIKE_A_SECTION)
        if key.value not in SECTIONS and near:
            told = f"{key.value} in group {group}, which has {', '.join(SECTIONS)}"
            _refuse(self.path, key, told, f"did you mean {near[0]}?")
        if key.value in SECTIONS and isinstance(section, yaml.SequenceNode):
            told = f"{key.value} of group {group} is a list, where it is a mapping"
            _refuse(self.path, section, told, "write NAME: in place of - NAME")
        if isinstance(section, yaml.MappingNode):
            if key.value == "children":
                self.look_at(section)
            if key.value == "hosts":
                self._look_at_hosts(section)

    def _look_at_hosts(self, hosts: yaml.MappingNode) -> None:
        for name, variables in hosts.value:
            if name.tag not in (TEXT, MERGE):
                _refuse(self.path, name, f"host {name.value} has no text for a name", "write it in quotes")
            if not isinstance(variables, yaml.MappingNode) and variables.tag != NOTHING:
                _refuse(self.path, variables, f"host {name.value} has no variables but {variables.value!r}")


def _keys(tree: yaml.MappingNode) -> list[str]:
    return [str(key.value) for key, _ in tree.value]


def _refuse(path: Path, node: yaml.Node, told: str, hint: str = "") -> NoReturn:
    raise QwenhostError(f"{path}:{node.start_mark.line + 1}: {told}", hint=hint)
