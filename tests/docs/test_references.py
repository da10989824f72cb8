"""What the documentation names exists: links, anchors, paths, dotted names, signatures."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import pagedkv

from .pages import PAGES, REPOSITORY, blocks, inline_code, page_name, prose

PACKAGE = REPOSITORY / "src" / "pagedkv"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"[\w.\-]+(?:/[\w.\-]+)*/?")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_SIGNATURE = re.compile(r"^(\w+)\(([^.\n][^\n]*|)\)(?: -> .*)?$", re.MULTILINE)
_TREE_PATH = re.compile(r"(?<![\w/.])[\w.]+(?:/[\w.]+)*(?:/|\.pyi?)(?![\w/])")


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in _anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_paths_exist(page: Path) -> None:
    folders = {entry.name for entry in REPOSITORY.iterdir()} | {"src", "native", "tests", "fuzz", "examples"}
    for code in inline_code(page):
        if _PATH.fullmatch(code) and ("/" in code or code in folders) and code.split("/")[0] in folders:
            assert (REPOSITORY / code).exists(), code


def test_the_layout_names_what_is_there() -> None:
    tree = blocks(REPOSITORY / "docs" / "contributing.md")[0].body
    named = _TREE_PATH.findall(tree)
    assert len(named) > 15
    for path in named:
        assert (REPOSITORY / path).exists() or (PACKAGE / path).exists(), path
    described = {name.strip("/").split("/")[-1] for name in named}
    missing = {entry.name for entry in PACKAGE.iterdir() if entry.suffix in ("", ".py")} - described
    assert missing <= {"__init__.py", "__pycache__"}, f"contributing.md does not name {missing}"


def _resolve(dotted: str) -> object | None:
    """The object of a dotted name. Raises ImportError or AttributeError.

    None for what needs a framework that is not installed here: then its file must do.
    """
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] != parts[0]:
                module = PACKAGE.parent.joinpath(*parts[:length])
                assert module.is_dir() or module.with_suffix(".py").exists(), dotted
                return None
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ImportError(dotted)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_dotted_names_exist(page: Path) -> None:
    for code in inline_code(page):
        name = code.partition("(")[0]
        if _DOTTED.fullmatch(name) is None:
            continue
        if name.startswith("pagedkv."):
            _resolve(name)
        elif name.split(".")[0] in pagedkv.__all__:
            _resolve(f"pagedkv.{name}")


def _parameters(arguments: ast.arguments) -> str:
    """Parameters without annotations, self and what is private, in one spelling."""
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    public = [(argument.arg, default) for argument, default in named if not argument.arg.startswith("_")]
    bare = ast.arguments(
        posonlyargs=[ast.arg(a.arg) for a in arguments.posonlyargs if a.arg not in ("self", "cls")],
        args=[ast.arg(a.arg) for a in arguments.args if a.arg not in ("self", "cls")],
        vararg=arguments.vararg and ast.arg(arguments.vararg.arg),
        kwonlyargs=[ast.arg(name) for name, _ in public],
        kw_defaults=[default for _, default in public],
        kwarg=arguments.kwarg and ast.arg(arguments.kwarg.arg),
        defaults=arguments.defaults,
    )
    return ast.unparse(bare)


def _signatures() -> dict[str, set[str]]:
    """Parameters of every function and class of the package, by its last name."""
    found: dict[str, set[str]] = {}
    for file in (*PACKAGE.rglob("*.py"), PACKAGE / "_core.pyi"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, set()).add(_parameters(node.args))
            elif isinstance(node, ast.ClassDef):
                fields = [
                    n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
                ]
                made = [
                    _parameters(n.args) for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"
                ]
                found.setdefault(node.name, set()).update(made or [", ".join(fields)])
    return found


def test_signatures_are_those_of_the_code() -> None:
    known = _signatures()
    shown = [
        match
        for block in blocks(REPOSITORY / "docs" / "api.md")
        if not block.info
        for match in _SIGNATURE.findall(block.body)
    ]
    assert len(shown) >= 10
    for name, parameters in shown:
        function = ast.parse(f"def f({parameters}): ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        assert _parameters(function.args) in known.get(name, set()), f"{name}({parameters}) is not {known.get(name)}"
