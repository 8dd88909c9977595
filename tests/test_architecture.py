"""The plan of the house, enforced: who imports whom, and how long a file may grow."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("kernels", "backend", "pages")
SOURCES = sorted([ROOT / "app.py", *(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))])
SOURCES = [path for path in SOURCES if path.exists()]

# library -> the paths (relative, as prefixes) that may import it
OWNERS = {
    "streamlit": ("app.py", "pages/"),
    "altair": ("pages/shared/charts/", "pages/shared/exports/"),
    "duckdb": ("backend/store/",),
    "starlette": ("app.py", "backend/routes/"),
    "transformers": (
        "backend/models.py",
        "backend/models/",
        "backend/attention.py",
        "backend/capture.py",
        "backend/tokens.py",
        "backend/prompts.py",
        "backend/generate.py",
        "backend/cache.py",
        "backend/families/",
    ),
    "triton": ("kernels/triton_",),
}
ALLOWED_ROOMS = {"kernels": {"kernels"}, "backend": {"kernels", "backend"}, "pages": {"kernels", "backend", "pages"}}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}: relative import at line {node.lineno}; write the full name"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_imports_go_one_way(path):
    name, modules = relative(path), imported_modules(path)
    tops = {module.split(".")[0] for module in modules}
    for library, owners in OWNERS.items():
        assert library not in tops or name.startswith(owners), f"{name} imports {library}; only {owners} may"
    room = name.split("/")[0]
    if room in ALLOWED_ROOMS:
        wrong = (tops & {*ROOMS, "app"}) - ALLOWED_ROOMS[room]
        assert not wrong, f"{name} imports {sorted(wrong)}: imports go app -> pages -> backend -> kernels"
    assert not (tops & {"tests", "benchmarks"}), f"{name} imports from tests or benchmarks"


@pytest.mark.parametrize("path", [p for p in SOURCES if relative(p).startswith("pages/")], ids=relative)
def test_pages_do_not_import_pages(path):
    for module in imported_modules(path):
        assert not module.startswith("pages.") or module.startswith("pages.shared"), (
            f"{relative(path)} imports {module}: pages share only pages/shared"
        )


def line_limit(name: str) -> int:
    if name.startswith("kernels/"):
        return 450
    return 150 if name.startswith("pages/") and name.count("/") == 1 else 300


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_and_functions_stay_short(path):
    text = path.read_text("utf-8")
    lines, limit = text.count("\n"), line_limit(relative(path))
    assert lines <= limit, f"{relative(path)} has {lines} lines, at most {limit}: split it by subject"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            jit = any(ast.unparse(decorator).startswith("triton.jit") for decorator in node.decorator_list)
            length, most = (node.end_lineno or 0) - node.lineno + 1, 120 if jit else 50
            assert length <= most, f"{relative(path)}: {node.name} has {length} lines, at most {most}"


def test_viewer_script_stays_short():
    for script in (ROOT / "pages").rglob("*.js"):
        assert script.read_text("utf-8").count("\n") < 900, f"{relative(script)}: under 900 lines, in sections"


def test_kernels_package_is_empty():
    # transformers probes for a package named `kernels` and would import ours.
    assert (ROOT / "kernels" / "__init__.py").read_text("utf-8") == ""
