#!/usr/bin/env python3
"""Links between the documents lead somewhere: links.py ROOT. Files and headings are looked up; nothing is fetched."""

import pathlib
import re
import sys

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def anchors(text):
    """Of headings, as GitHub makes them."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?)\s*$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if n == 0 else f"{name}-{n}" for name, count in found.items() for n in range(count + 1)}


def broken(root, page):
    text = FENCE.sub("", page.read_text())
    for match in LINK.finditer(text):
        link = match[1] or match[2]
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        where = page.relative_to(root)
        if not target.exists():
            yield f"{where}: {link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{where}: {link}: no such heading"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("studies/**/*.md"), *root.glob("tests/**/*.md"),
             *root.glob("examples/**/*.md")]
    pages = [page for page in pages if not page.is_relative_to(root / "docs/site")]  # built, and checked, by scripts/site
    wrong = [line for page in sorted(pages) for line in broken(root, page)]
    print("\n".join(wrong) or f"{len(pages)} documents")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
