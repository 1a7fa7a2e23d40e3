"""Sphinx configuration; `make docs` builds with warnings as errors."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import dpfast  # noqa: E402 - after the path

project = "dpfast"
copyright = "dpfast developers"
version = release = dpfast.__version__

extensions = [
    "myst_nb",  # pages with code cells are executed, every time
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "mathematics",  # plain text becomes formulas, on these pages
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # a copy of MathJax in the pages: readers ask no other server
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
typeset_prose = ["claims/.*"]
typeset_pages = ["methods", "privacy", "releases", "scale", "how-many-records"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_merge_streams = True
# Pages link to files of the repository, too; claims are third-level headings everywhere.
# Outputs of cells include "text" that looks like nothing pygments knows.
suppress_warnings = ["myst.xref_missing", "myst.header", "ref.python"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"dpfast {version}"
html_favicon = "static/dpfast.svg"
html_static_path = ["static"]
html_css_files = ["dpfast.css"]
html_js_files = ["dpfast.js"]
copybutton_exclude = ".linenos, .gp, .go"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Privacy", "notes_style")]
autodoc_member_order = "bysource"
autodoc_typehints = "none"


def setup(app):
    """Methods that scikit-learn adds to our classes refer to pages of its own documentation."""
    app.connect("autodoc-skip-member", _skip_what_scikit_learn_adds)


def _skip_what_scikit_learn_adds(app, what, name, member, skip, options):
    return skip or (getattr(member, "__module__", None) or "").startswith("sklearn.")
