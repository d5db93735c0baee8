"""Writes the docstrings of the native module into its stub, from which editors show them.

python python/stubs.py          rewrites python/src/flashlab/_flashlab.pyi
python python/stubs.py --check  fails if the stub lacks a docstring, or has a different one; the tests call `documented`
"""

import ast
import inspect
import pathlib
import sys
from typing import Any, List, Optional, Tuple, Union

STUB = pathlib.Path(__file__).parent / "src" / "flashlab" / "_flashlab.pyi"

Function = Union[ast.FunctionDef, ast.ClassDef]


def documented(stub: str, module: Any) -> str:
    """Return the stub with the docstrings of the module in place of its own."""
    changes: List[Tuple[Function, Optional[str]]] = []
    for node in ast.parse(stub).body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        value = getattr(module, node.name)
        changes.append((node, inspect.getdoc(value)))
        for member in node.body if isinstance(node, ast.ClassDef) else []:
            # The documentation of a class covers its constructor and its other methods with special names.
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                changes.append((member, _text(vars(value)[member.name])))
    lines = stub.splitlines()
    for node, text in reversed(changes):
        _replace(lines, node, text)
    return "\n".join(lines) + "\n"


def _text(member: Any) -> Optional[str]:
    text = getattr(member, "__doc__", None)
    # The descriptor of a class method has the documentation of its function.
    if isinstance(member, classmethod):
        text = member.__func__.__doc__
    return inspect.cleandoc(text) if text else None


def _replace(lines: List[str], node: Function, text: Optional[str]) -> None:
    """Replace the docstring of a class, or the whole body of a function."""
    indent = " " * (node.col_offset + 4)
    first = node.body[0]
    has_text = ast.get_docstring(node) is not None
    block = [] if text is None else _block(text, indent)
    if isinstance(node, ast.ClassDef):
        begin = first.lineno - 1
        end = first.end_lineno if has_text else begin
        # The first member of a class may have a decorator.
        if not has_text and isinstance(first, ast.FunctionDef) and first.decorator_list:
            begin = end = first.decorator_list[0].lineno - 1
        lines[begin:end] = block
        return
    header = lines[first.lineno - 1][: first.col_offset].rstrip()
    begin = first.lineno - 1
    if not header:
        begin -= 1
        header = lines[begin]
    lines[begin : node.end_lineno] = [header, *block] if block else [header + " ..."]


def _block(text: str, indent: str) -> List[str]:
    """Return the lines of a docstring. The closing quotation marks of several lines have their own line."""
    lines = text.split("\n")
    quoted = [f'"""{text}"""'] if len(lines) == 1 else [f'"""{lines[0]}', *lines[1:], '"""']
    return [indent + line if line else "" for line in quoted]


def main() -> int:
    from flashlab import _flashlab

    stub = STUB.read_text()
    text = documented(stub, _flashlab)
    if "--check" not in sys.argv:
        STUB.write_text(text)
    elif text != stub:
        print(f"{STUB}: the docstrings are not those of the module: run python/stubs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
