"""The type stubs say what there is: no more, no less. (``python -m mypy.stubtest braid`` compares arguments too.)"""

import ast
import inspect
from pathlib import Path

import braid
import braid._braid
import braid.aio
import pytest

PACKAGE = Path(braid.__file__).parent


def public(names) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def classes(stub: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse((PACKAGE / stub).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}


@pytest.mark.parametrize(("stub", "module"), [("_braid.pyi", braid._braid), ("aio.pyi", braid.aio)])
def test_each_public_class_and_method_is_in_the_stubs_with_its_arguments(stub, module):
    home = "braid" if module is braid._braid else module.__name__
    there = {name: one for name, one in vars(module).items() if inspect.isclass(one) and one.__module__ == home}
    stubs = classes(stub)
    assert set(stubs) == public(there)
    for name, node in stubs.items():
        methods = {item.name: item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}
        assert public(methods) == public(dir(there[name])), name
        for method, item in methods.items():
            runtime = getattr(there[name], method)
            if method.startswith("_") or not callable(runtime):
                continue
            said = [argument.arg for argument in item.args.args + item.args.kwonlyargs if argument.arg not in ("self", "cls")]
            kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            parameters = inspect.signature(runtime).parameters.values()
            found = [one.name for one in parameters if one.kind not in kinds and one.name != "self"]
            # `view` of aio takes its three words as **strided.
            assert said == found or (name, method) == ("File", "view"), f"{name}.{method}"


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()
