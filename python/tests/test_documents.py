"""The examples of docs/python.md, docs/sweeps.md, of python/README.md and of the notebooks, as a reader runs them."""

import ast
import doctest
import json
import pathlib
import re

import flashlab
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "python/notebooks").glob("*.ipynb"))


def examples():
    for document in (ROOT / "docs/python.md", ROOT / "docs/sweeps.md", ROOT / "python/README.md"):
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(), re.S), 1):
            yield pytest.param(document, code, id=f"{document.name}-{number}")


@pytest.mark.parametrize(("document", "code"), list(examples()))
def test_an_example_of_a_document_runs(document, code, tmp_path, monkeypatch, pytester):
    if "def test_" in code:
        pytester.makepyfile(code)
        assert pytester.runpytest_subprocess("-p", "no:cacheprovider").ret == 0
        return
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(document), "exec"), {})


pytest_plugins = ["pytester"]


def test_examples_of_docstrings_run():
    outcome = doctest.testmod(flashlab)
    assert outcome.attempted > 0 and outcome.failed == 0


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path, monkeypatch):
    """Runs the cells in one namespace and shows their last values, as a kernel does."""
    monkeypatch.chdir(tmp_path)
    namespace, shown = {}, []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, notebook.name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), namespace)
            shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    assert any("<svg" in html for html in shown), "no figure appears"


def test_there_are_two_notebooks():
    assert [notebook.stem for notebook in NOTEBOOKS] == ["power-cuts", "which-card"]
