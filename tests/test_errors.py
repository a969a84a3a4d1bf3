"""Errors: message, parameter and hint, shown in Python's notation and in the command's."""

import ast
import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest

from dpkmeans import errors
from dpkmeans.cli.outcomes import as_option
from dpkmeans.errors import UNSET, DataError, Explained, FileError, LedgerError, MethodError, WeakSignalWarning

KINDS = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Explained)]
SOURCES = sorted((Path(errors.__file__).parent).rglob("*.py"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_and_warning_names_the_parameter_and_its_value_in_the_readers_notation(kind):
    error = kind("is too large.", parameter="n_clusters", value=4, hint="Write {n_clusters=2}, or {guarantee='none'}.")
    assert str(error) == "n_clusters=4 is too large. Write n_clusters=2, or guarantee='none'."
    assert error.in_words(as_option) == "--k 4 is too large. Write --k 2, or --guarantee none."


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_a_pickle_and_a_copy_with_all_they_carry(kind):
    error = kind("is empty.", parameter="columns", value="a", hint="Leave {columns} out.")
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == str(error) == "columns='a' is empty. Leave columns out."


def test_errors_survive_the_pickle_of_a_cluster_that_rebuilds_them_without_arguments():
    """Dask installs this for every exception of a process that imports it; a process of its own keeps it away here."""
    code = (
        "import pickle, inspect\nfrom tblib import pickling_support\nfrom dpkmeans import errors\n"
        "pickling_support.install()\n"
        "for kind in vars(errors).values():\n"
        "    if inspect.isclass(kind) and issubclass(kind, errors.Explained):\n"
        "        error = kind('is empty.', parameter='columns')\n"
        "        other = pickle.loads(pickle.dumps(error))\n"
        "        assert (type(other), str(other)) == (kind, str(error)), kind\n"
    )
    pytest.importorskip("tblib")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_braces_in_a_message_are_text():
    assert str(FileError("cannot read {x}=1.")) == "cannot read {x}=1."
    assert str(LedgerError("{}", hint="Try again.")) == "{} Try again."
    assert str(WeakSignalWarning("a % {b}")) == "a % {b}"


@pytest.mark.parametrize(
    ("parameter", "value", "option"),
    [
        ("bounds_epsilon", UNSET, "--bounds-epsilon"),
        ("scale", None, "--scale none"),
        ("random_state", 3, "--seed 3"),
        ("header", True, "--header"),
        ("header", False, "--no-header"),
        ("bounds", (0, 1), "--bounds 0:1"),
        ("bounds", ([0, -5], [10, 5]), "--bounds 0:10,-5:5"),
        ("bounds", "from data", "--bounds 'from data'"),
    ],
)
def test_a_parameter_is_shown_as_the_option_that_sets_it(parameter, value, option):
    assert as_option(parameter, value) == option


def _hints():
    """Every literal hint in the sources, with the place where it stands."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint" and isinstance(node.value, ast.Constant):
                yield pytest.param(node.value.value, id=f"{path.name}:{node.value.lineno}")


@pytest.mark.parametrize("hint", list(_hints()))
def test_every_hint_in_the_sources_can_be_rendered_in_both_notations(hint):
    error = MethodError("message.", hint=hint)
    assert "{" not in str(error)
    assert "{" not in error.in_words(as_option)
    assert len(list(Formatter().parse(hint))) > 0


def test_no_message_of_the_library_names_an_option_of_the_command():
    """An option is the command's notation; a message that is shown in Python as well must not use it."""
    for path in SOURCES:
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == DataError.__name__:
                assert "--" not in ast.unparse(node), f"{path.name}:{node.lineno}"
