"""Sphinx configuration; `make docs` builds with warnings as errors."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import reference  # noqa: E402 - after the path

import dpfast  # noqa: E402

project = "dpfast"
copyright = "dpfast developers"
version = release = dpfast.__version__

extensions = [
    "myst_nb",  # pages with code cells are executed, every time
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.linkcode",
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
nb_execution_timeout = 600  # of a cell, on a machine that may be busy
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_merge_streams = True
# Pages link to files of the repository, too; claims are third-level headings everywhere.
# Outputs of cells include "text" that looks like nothing pygments knows.
# Tables of a class stand within its description, which is the module they are in.
suppress_warnings = ["myst.xref_missing", "myst.header", "ref.python", "autosummary.import_cycle"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"dpfast {version}"
html_favicon = "static/dpfast.svg"
html_static_path = ["static"]
# Sphinx looks for it where it runs.
html_search_scorer = str(ROOT / "docs" / "static" / "scorer.js")
html_css_files = ["dpfast.css"]
html_domain_indices = False  # the reference is its own list of modules; Sphinx's links nowhere
html_js_files = ["dpfast.js"]
copybutton_exclude = ".linenos, .gp, .go"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Privacy", "notes_style")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 70
add_module_names = False
toc_object_entries_show_parents = "hide"

# The pages of the reference, and of the source they link to, are made by docs/reference.py.
autosummary_generate = False
autosummary_filename_map = reference.addresses(reference.names())
linkcode_resolve = reference.source_of

# Types of others link to their pages where DPFAST_DOCS_LINKS=1 says that the network is there;
# without it they are names, and nobody is asked.
intersphinx_timeout = 20
intersphinx_mapping = {}
if os.environ.get("DPFAST_DOCS_LINKS") == "1":
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }


def setup(app):
    """Links of the reference lead to pages of the source."""
    app.connect("autodoc-process-signature", reference.signature)
    app.connect("doctree-read", reference.letters)
    app.connect("html-collect-pages", reference.sources)
