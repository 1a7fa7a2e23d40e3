"""The pages of the reference: one for each name that ``docs/api.md`` lists.

python docs/reference.py     writes docs/api/*.rst; ``docs/gather.py`` calls it

``docs/conf.py`` has the addresses of pages (:func:`addresses`) and where the source of a name is
(:func:`source_of`) from here; :func:`sources` makes the pages of that source.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

#: Methods of Python itself that users call by a sign.
SIGNS = ("__call__", "__getitem__")


def names(page: str | None = None) -> list[str]:
    """Every name of the reference, in its order."""
    text = (DOCS / "api.md").read_text(encoding="utf-8") if page is None else page
    return re.findall(r"^   ~?(dpfast\.[\w.]+)$", text, re.M)


def thing(name: str) -> Any:
    """What a dotted name stands for; modules may have the name of a function they hold."""
    home, _, last = name.rpartition(".")
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError:  # a member of a class
        return inspect.getattr_static(thing(home), last)
    return getattr(module, last)


def addresses(listed: list[str]) -> dict[str, str]:
    """File names of pages whose names differ from others in capitals only: `Plan` and `plan`."""
    lower = [name.lower() for name in listed]
    return {
        name: f"{name}-class"
        for name in listed
        if lower.count(name.lower()) > 1 and inspect.isclass(thing(name))
    }


# ---- one page --------------------------------------------------------------------------------


def members(kind: type, documented: set[type]) -> tuple[list[str], list[str]]:
    """Methods and properties of a class, and those that only refuse; none of a base with a page."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("dpfast.")]
    above = {key for base in bases[1:] if base in documented for key in vars(base)}
    found: dict[str, bool] = {}
    for base in bases:
        for key, member in vars(base).items():
            if (key.startswith("_") and key not in SIGNS) or key in above:
                continue
            function = getattr(member, "__func__", getattr(member, "fget", member))
            function = getattr(function, "func", function)  # a cached property
            if inspect.isfunction(function) and function.__doc__:
                found.setdefault(key, function.__doc__.startswith("Refused:"))
    return [k for k, refused in found.items() if not refused], [k for k in found if found[k]]


def page(name: str, documented: set[type]) -> str:
    what = thing(name)
    # A path through the package says nothing to who is handed the class by a function.
    title = name if len(name.split(".")) < 4 else name.rpartition(".")[2]
    lines = [title, "=" * len(title), ""]
    if inspect.isclass(what) and issubclass(what, BaseException):
        return "\n".join([*lines, f".. autoexception:: {name}", "   :show-inheritance:", ""])
    if not inspect.isclass(what):
        directive = "autofunction" if callable(what) else "autodata"
        return "\n".join([*lines, f".. {directive}:: {name}", ""])
    listed, refused = members(what, documented)
    lines += [f".. autoclass:: {name}"]
    if any(base in documented for base in what.__mro__[1:]):
        lines += ["   :show-inheritance:"]
    if listed:
        lines += [f"   :members: {', '.join(listed)}"]
    if len(listed) > 3:
        lines += ["", "   .. autosummary::", "      :nosignatures:", ""]
        lines += [f"      ~{name}.{member}" for member in listed]
    if refused:
        words = ", ".join(f"``{member}``" for member in refused)
        lines += ["", f"   Refused, with the reason: {words}."]
    return "\n".join([*lines, ""])


def write(folder: Path = DOCS / "api") -> None:
    listed = names()
    elsewhere = addresses(listed)
    documented = {what for name in listed if inspect.isclass(what := thing(name))}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in listed:
        text = page(name, documented)
        (folder / f"{elsewhere.get(name, name)}.rst").write_text(text, encoding="utf-8")


# ---- while pages are read ---------------------------------------------------------------------

#: How an array of doubles is spelt once annotations are evaluated, and by who wrote it.
DOUBLES = re.compile(r"~?numpy\.ndarray\[tuple\[.*?\], ~?numpy\.dtype\[(~?numpy\.\w+)\]\]")


def signature(app: Any, what: str, name: str, found: Any, options: Any, *words: str | None) -> Any:
    """Of what users do not make themselves, nothing is said of how it is made."""
    if what == "class" and "Parameters\n---" not in (inspect.getdoc(found) or ""):
        return "", None
    return tuple(word and DOUBLES.sub(r"~numpy.typing.NDArray[\1]", word) for word in words)


def letters(app: Any, doctree: Any) -> None:
    """Types such as "array of shape (n,)" are words: the n in them is no name of the reference."""
    for node in doctree.findall(lambda node: node.tagname == "pending_xref"):
        if node.get("refdomain") == "py" and len(node.get("reftarget", "")) == 1:
            kept = [child for child in node.children if child.get("condition") != "resolved"]
            conditional = kept and kept[0].tagname == "pending_xref_condition"
            node.replace_self(kept[0].children if conditional else kept)


# ---- where it was made -----------------------------------------------------------------------


def place_of(name: str) -> tuple[str, int] | None:
    """Module and line in which a name is defined; None for what is not Python of dpfast."""
    try:
        found = thing(name)
    except (AttributeError, ImportError):
        return None
    found = getattr(found, "__func__", getattr(found, "fget", found))
    found = inspect.unwrap(getattr(found, "func", found))
    try:
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (TypeError, OSError):
        return None
    if file is None or not Path(file).resolve().is_relative_to(ROOT / "dpfast"):
        return None
    path = Path(file).resolve().relative_to(ROOT).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__"), max(line, 1)


def source_of(domain: str, info: dict[str, str]) -> str | None:
    """The address of a name's source, for ``sphinx.ext.linkcode``; pages with names are in api/."""
    place = place_of(f"{info['module']}.{info['fullname']}") if domain == "py" else None
    return place and f"../_modules/{place[0].replace('.', '/')}.html#line-{place[1]}"


def sources(app: Any) -> Iterator[tuple[str, dict[str, str], str]]:
    """A page for each module in which something of the reference is defined."""
    objects = app.env.domaindata["py"]["objects"]
    for module in sorted({place[0] for name in objects if (place := place_of(name))}):
        text = Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")
        code = app.builder.highlighter.highlight_block(text, "python", linenos=False)
        before, pre, lines = code.partition("<pre>")
        numbered = "".join(
            f'<span id="line-{k}"></span>{line}'
            for k, line in enumerate(lines.splitlines(keepends=True), 1)
        )
        body = f"<h1>{escape(module)}</h1>\n{before}{pre}{numbered}"
        address = f"_modules/{module.replace('.', '/')}"
        yield address, {"title": module, "body": body}, "page.html"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    write()
