"""Sphinx: the site of scripts/site, which puts the documents beside this file."""

import pathlib
import re

project = "ppsim"
author = "the authors of ppsim"
copyright = "the authors of ppsim, Apache-2.0"  # noqa: A001
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "ppsim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
highlight_language = "none"
smartquotes = False
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.header"]


def setup(app):
    app.connect("autodoc-process-docstring", plain)
    app.connect("build-finished", mend_theme)


def plain(_app, _what, _name, _object, _options, lines):
    """Docstrings are plain text: the first paragraph is prose, the rest is kept as it is."""
    end = lines.index("") if "" in lines else len(lines)
    prose = " ".join(lines[:end]).translate({ord(mark): f"\\{mark}" for mark in "\\*_`|"})
    rest = lines[end:]
    lines[:] = [prose, ""]
    if any(line.strip() for line in rest):
        lines += ["::", "", *("   " + line for line in rest), ""]


def mend_theme(app, _error):
    """Debian 12 builds furo so that it looks wrong without a server, has no working script, and is never dark by itself.

    Its style sheet imports another one from the root of the server, its script begins with an import though pages load
    it as no module, and the rules for readers who prefer dark colours are missing. Any other furo stays as it is.
    """
    static = pathlib.Path(app.outdir, "_static")
    imported = pathlib.Path("/usr/share/javascript/normalize.css/normalize.css")
    styles, script = static / "styles/furo.css", static / "scripts/furo.js"
    rules = styles.read_text(encoding="utf-8")
    rule = f"@import url(/javascript/{imported.parent.name}/{imported.name});"
    if rule in rules:
        rules = rules.replace(rule, imported.read_text(encoding="utf-8"))
    if "prefers-color-scheme" not in rules:
        chosen = re.search(r'@media not print \{\n  body\[data-theme="dark"\].*?\} \}\n', rules, re.S)[0]
        preferred = chosen.replace('[data-theme="dark"]', ':not([data-theme="light"])')
        rules = rules.replace(chosen, f"{chosen}\n@media (prefers-color-scheme: dark) {{\n{preferred}}}\n")
    styles.write_text(rules, encoding="utf-8")
    statement = 'import Gumshoe from "./gumshoe-patched.js";\n'
    text = script.read_text(encoding="utf-8")
    if text.startswith(statement):
        text = (static / "scripts/gumshoe-patched.js").read_text(encoding="utf-8") + text.removeprefix(statement)
        script.write_text(text, encoding="utf-8")
