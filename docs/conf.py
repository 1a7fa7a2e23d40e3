"""Sphinx configuration; `make docs` builds with warnings as errors."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import dpfast  # noqa: E402 - after the path

project = "dpfast"
copyright = "dpfast developers"
version = release = dpfast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# Pages link to files of the repository, too; claims are third-level headings everywhere.
suppress_warnings = ["myst.xref_missing", "myst.header"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"dpfast {version}"
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
