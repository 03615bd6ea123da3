#!/usr/bin/env python3
"""The built site in a real Chromium: site_test.py SITE. Exit 77 where there is no Chromium or no site."""

import os
import sys

import chromium

PAGES = ("index", "README", "gallery/index", "docs/tutorials/plan-a-run", "docs/faq", "docs/cli", "python/index")
BRIGHTNESS = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def opens(page, url):
    page.open(url)
    check(page.complaints == [], f"{url}: {page.complaints}")


def main(site):
    if chromium.executable() is None or not os.path.isfile(f"{site}/index.html"):
        print("SKIPPED: no Chromium, or no site: scripts/test --browser and scripts/site make them", file=sys.stderr)
        return 77
    with chromium.Page() as page:
        for width, height in ((1920, 1080), (1400, 900), (1200, 800), (1050, 700), (800, 600)):
            page.size(width, height)
            for name in PAGES:
                opens(page, f"{site}/{name}.html")
                check(page.value("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} at {width} scrolls sideways")
        for scheme, dark in (("light", False), ("dark", True)):
            page.colours(scheme)
            opens(page, f"{site}/index.html")
            check((page.value(BRIGHTNESS) < 200) == dark, f"the page is not {scheme} where that is preferred")
        page.value("[...document.querySelectorAll('.theme-toggle')].find(b => b.checkVisibility()).click()")
        check(page.value(BRIGHTNESS) > 600, "the button does not switch to light colours")
        outside = [url for url in page.requests if not url.startswith(("file://", "data:"))]
        check(outside == [], f"the site asks for {outside}")
    print("ok", len(PAGES), "pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
