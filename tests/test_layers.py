"""The order of the layers, and the sizes that keep a module readable. docs/architecture.md explains both."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dpkmeans

ROOT = Path(dpkmeans.__file__).parent
MODULES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}

LAYERS = (
    {"errors", "interrupts", "progress", "_typing"},
    {"core"},
    {"storage"},
    {"kernels", "privacy"},
    {"data"},
    {"engines"},
    {"methods"},
    {"synopsis"},
    {"wide"},
    {"session"},
    {"evaluation"},
    {"estimator", "spend_once"},
    {"verification"},
    {"report"},
    {"audit", "comparison", "demo", "planning", "plot", "reproduction"},
    {"cli"},
    {"__init__", "__main__"},
)
"""A layer imports from those above it in this list, never from those below or beside it."""

UPWARD = {
    ("core/release.py", "storage"): "`Release` saves and loads itself; imported when it does",
    ("core/release.py", "engines"): "`Release` finds the nearest centroid of records; imported when it does",
    ("core/release.py", "synopsis"): "`Release` repeats its fit on its synopsis for intervals; imported when it does",
    ("core/release.py", "evaluation"): "`Release` asks about its own quality; imported when it does",
    ("core/release.py", "report"): "`Release` shows and writes its report; imported when it does",
    ("methods/registry.py", "synopsis"): "the registry names every method, and one of them is the synopsis",
    ("methods/registry.py", "wide"): "the registry names every method, and one of them is for many features",
}
"""The only imports against the order, each with its reason."""

TOP = {
    "__init__.py",
    "__main__.py",
    "_typing.py",
    "errors.py",
    "estimator.py",
    "interrupts.py",
    "plot.py",
    "progress.py",
    "session.py",
    "spend_once.py",
    "verification.py",
}
MAX_MODULE, MAX_FUNCTION, MAX_PARAMETERS = 350, 60, 8
COMMANDS = ("estimator.py", "spend_once.py", "cli/")  # a user gives each parameter by name, and reads what it means


def layer_of(folder: str) -> int:
    return next(i for i, folders in enumerate(LAYERS) if folder in folders)


def imported_folders(tree: ast.AST) -> Iterator[str]:
    """The folders, or modules at the top, that a module imports from, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "dpkmeans":
            modules = [f"dpkmeans.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            modules = [str(node.module)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            if module.split(".")[0] == "dpkmeans":
                name = (*module.split("."), "__init__")[1]
                yield name if any(name in folders for folders in LAYERS) else "__init__"


def against_the_order(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    found = set()
    for path, tree in modules.items():
        here = path.split("/")[0].removesuffix(".py")
        for there in imported_folders(tree):
            beside = layer_of(there) == layer_of(here)
            if there != here and (layer_of(there) > layer_of(here) or beside):
                found.add((path, there))
    return found


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls", "typing_context"}])


def test_imports_go_one_way_but_for_the_listed_ones():
    found = against_the_order(MODULES)
    assert found == UPWARD.keys(), "nothing joins the list without a reason; what is no longer needed leaves it"


def test_an_import_against_the_order_is_found_inside_a_function_too():
    wrong = "def f():\n    from dpkmeans.cli.main import main\n"
    assert against_the_order({"core/bounds.py": ast.parse(wrong)}) == {("core/bounds.py", "cli")}
    beside = ast.parse("from dpkmeans import kernels")
    assert against_the_order({"privacy/ledger.py": beside}) == {("privacy/ledger.py", "kernels")}


def test_nothing_lies_at_the_top_but_what_users_import_and_what_all_share():
    assert {path.name for path in ROOT.glob("*.py")} == TOP


def test_every_folder_opens_with_its_rule():
    for folder in (path for path in ROOT.rglob("*") if path.is_dir() and path.name != "__pycache__"):
        name = (folder / "__init__.py").relative_to(ROOT).as_posix()
        rule = ast.get_docstring(MODULES[name])
        assert rule is not None, f"{name} has no docstring"
        assert rule.splitlines()[0].endswith("."), f"{name} opens with a sentence"


def test_no_module_is_long():
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in MODULES}
    assert {path for path, length in lengths.items() if length > MAX_MODULE} == set()


def test_no_function_is_long():
    long = [
        f"{path}: {f.name}, {f.end_lineno - f.lineno + 1} lines"
        for path, tree in MODULES.items()
        if not path.startswith(COMMANDS)
        for f in functions(tree)
        if f.end_lineno is not None and f.end_lineno - f.lineno + 1 > MAX_FUNCTION
    ]
    assert long == []


def test_no_function_has_many_parameters():
    many = [
        f"{path}: {f.name}, {n_parameters(f)} parameters"
        for path, tree in MODULES.items()
        if not path.startswith(COMMANDS)
        for f in functions(tree)
        if n_parameters(f) > MAX_PARAMETERS
    ]
    assert many == []
