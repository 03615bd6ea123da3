"""Sphinx: the site of scripts/site, which puts the documents beside this file."""

project = "ppsim"
author = "the authors of ppsim"
copyright = "the authors of ppsim, Apache-2.0"  # noqa: A001
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "ppsim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.header"]


def setup(app):
    app.connect("autodoc-process-docstring", plain)


def plain(_app, _what, _name, _object, _options, lines):
    """Docstrings are plain text: the first paragraph is prose, the rest is kept as it is."""
    end = lines.index("") if "" in lines else len(lines)
    prose = " ".join(lines[:end]).translate({ord(mark): f"\\{mark}" for mark in "\\*_`|"})
    rest = lines[end:]
    lines[:] = [prose, ""]
    if any(line.strip() for line in rest):
        lines += ["::", "", *("   " + line for line in rest), ""]
