#!/usr/bin/env python3
"""The report's page in a real Chromium: report_test.py PPSIM. Exit 77 where there is no Chromium."""

import base64
import csv
import os
import re
import subprocess
import sys
import tempfile

import chromium

LIGHTEST = 0.55  # how far the last chunk of a rank is towards white
FORWARD, BACKWARD = (0x56, 0xB4, 0xE9), (0xE6, 0x9F, 0x00)


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def ppsim(*arguments):
    return subprocess.run([sys.argv[1], *arguments], check=True, capture_output=True, text=True).stdout


def cells_of(path, ranks, chunks):
    """Per rank (start, end, kind, how much of its colour a cell has) of what it computes."""
    rows = [[] for _ in range(ranks)]
    with open(path) as file:
        for row in csv.DictReader(file):
            action = re.fullmatch(r"(\d+)([FB])\d+", row["instruction"])
            if action:
                strength = 1 - LIGHTEST * (int(action[1]) // ranks) / (chunks - 1)
                rows[int(row["rank"])].append((int(row["start_ns"]), int(row["end_ns"]), action[2], strength))
    return rows


def rasterised(cells, begin, end, width):
    """The shares of F and B in every pixel, by area, each as strong as its colour is."""
    shares = {"F": [0.0] * width, "B": [0.0] * width}
    scale = width / (end - begin)
    for start, stop, kind, strength in cells:
        left, right = max(0.0, (start - begin) * scale), min(float(width), (stop - begin) * scale)
        x = int(left)
        while x < right:
            shares[kind][x] += strength * (min(right, x + 1) - max(left, x))
            x += 1
    return shares


def shares_of(red, green, blue):
    """Least squares: how much of the two colours takes white to this one."""
    f, b, p = ([255 - c for c in colour] for colour in (FORWARD, BACKWARD, (red, green, blue)))
    ff, fb, bb = (sum(x * y for x, y in zip(u, v)) for u, v in ((f, f), (f, b), (b, b)))
    pf, pb = (sum(x * y for x, y in zip(p, v)) for v in (f, b))
    determinant = ff * bb - fb * fb
    return (pf * bb - pb * fb) / determinant, (pb * ff - pf * fb) / determinant


ROW_PIXELS = """(rank => {
  const lane = laneOf(run, rank), canvas = $("timeline"), y = Math.round(yOfLane(lane) + lane.height / 2);
  const width = plotWidth(canvas.clientWidth), pixels = canvas.getContext("2d").getImageData(LEFT, y, width, 1).data;
  return btoa(String.fromCharCode(...pixels));
})(%d)"""


def largest_difference(page, cells, begin, end):
    """Between the page's picture and the reference, over all pixels of the ranks given."""
    largest = 0.0
    for rank, row in cells:
        pixels = base64.b64decode(page.value(ROW_PIXELS % rank))
        expected = rasterised(row, begin, end, len(pixels) // 4)
        for x in range(len(pixels) // 4):
            forward, backward = shares_of(*pixels[4 * x:4 * x + 3])
            largest = max(largest, abs(forward - expected["F"][x]), abs(backward - expected["B"][x]))
    return largest


def test_pixels_are_mixtures_by_time(page):
    ppsim("simulate", "interleaved-1f1b", "--ranks", "64", "--microbatches", "512", "--chunks", "4", "--unit",
          "F=1,B=2,c=0.1,A=1e6", "--report", "large.html", "--trace", "large.csv")
    check(os.path.getsize("large.html") < 5e6, "a page of 64 ranks and 512 microbatches is too large")
    cells = cells_of("large.csv", 64, 4)
    some = [(rank, cells[rank]) for rank in range(0, 64, 7)]
    page.size(1400, 900)
    page.colours("light")
    page.open("large.html")
    end = page.value("lastTime()")
    check(end == max(row[-1][1] for row in cells), "the step of the page is another one")
    difference = largest_difference(page, some, 0, end)
    check(difference < 0.02, f"a pixel of the whole step is off by {difference}")
    for part in (0.37, 0.08):  # cells of 5 pixels have a line between them
        page.value(f"place({end} * 0.4, {end} * {part})")
        page.settle()
        begin, until = page.value("[view.from, view.to]")
        difference = largest_difference(page, some[::3], begin, until)
        check(difference < 0.02, f"a pixel is off by {difference} at {part} of the step")


FRAME = "(() => { const end = lastTime(); view.from = end * 0.4 * %d / 60; view.to = view.from + end * Math.pow(0.9, %d); drawNow(); })()"


def test_zoom_is_smooth(page):
    """A test measures no time, unless it is asked to: then that of the page's thread, which other programs do not lengthen."""
    times = []
    for i in range(60):
        before = page.thread_ms()
        page.value(FRAME % (i, i % 40))
        times.append(page.thread_ms() - before)
    times.sort()
    if os.environ.get("PPSIM_FRAME_TIMES"):
        print(f"frames of 64 ranks, 512 microbatches and 4 chunks: median {times[30]:.1f} ms of the page's thread, at most {times[-1]:.1f} ms")
        check(times[30] < 16 and times[-1] <= 50, "a zoom is not smooth")


def test_finds_walks_and_measures(page):
    page.value("place(0, lastTime())")
    page.value("$('timeline').scrollIntoView()")
    page.value("$('search').focus()")
    for letter in "rank 3 mb 17":
        page.key(letter)
    page.settle()
    check(page.value("$('found').textContent") == "1 of 8", "rank 3 has 8 actions of microbatch 17")
    text = page.value("$('chosen').textContent")
    check("3F17 on rank 3" in text and "3RECV_F17 was complete" in text and "chain of 21 actions" in text, text)
    page.key("Enter")
    check(page.value("$('found').textContent") == "2 of 8", "Enter goes on")
    page.key("Escape")
    check(page.value("document.activeElement.id") == "timeline", "Escape leaves the search")
    page.value("select({run, rank: 3, i: 17})")
    page.key("Enter")
    check(page.value("[selected.rank, selected.i]") == [2, 17], "Enter follows what was waited for")
    page.key("ArrowRight")
    page.key("ArrowDown")
    check(page.value("selected.rank") == 3, "the arrows walk")
    page.key("m")
    check(page.value("marked") == page.value("microbatchOf(selected)"), "M marks")
    for key in ("r", "ArrowRight", "r"):
        page.key(key)
    check("Range of" in page.value("$('chosen').textContent"), "R measures")
    page.key("0")
    page.key("+")
    check(page.value("view.to - view.from < lastTime()"), "+ zooms")
    page.key("Escape")
    check(page.value("selected === null && marked === null && range === null"), "Escape forgets")
    page.value("$('actionsDetails').open = true")
    page.value("new Promise(done => setTimeout(done, 300))")
    check(page.value("$('actions').rows.length") > 100, "the actions are in a table, too")


def test_mouse_says_what_an_action_waited_for(page):
    ppsim("simulate", "1f1b", "--ranks", "4", "--microbatches", "8", "--unit", "F=1,B=2,c=0.1", "--report", "small.html")
    page.open("small.html")
    page.value("$('timeline').scrollIntoView()")
    page.settle()
    at = page.value("""(() => { const box = $("timeline").getBoundingClientRect(), cells = run.cells[2], lane = laneOf(run, 2);
      return [box.left + xOf((cells.start[1] + cells.end[1]) / 2, box.width), box.top + yOfLane(lane) + lane.height / 2]; })()""")
    page.click(*at)
    check(page.value("$('chosen').textContent").startswith("2F1 on rank 2"), "a click chooses")
    check(page.value("chain.length") == 4, "0F0, 0F1, 1F1, 2F1")
    check("0 B" not in page.value("document.querySelector('main').innerText"), "unknown sizes are no zeros")
    check("ppsim simulate 1f1b" in page.value("$('command').textContent"), "the command is on the page")


def test_runs_stand_under_each_other(page):
    ppsim("compare", "1f1b", "zb-h1", "dualpipe", "--ranks", "4", "--microbatches", "8", "--unit", "F=1,B=2,c=0.1",
          "--report", "compared.html")
    page.open("compared.html")
    check(page.value("lanes.filter(l => l.heading).map(l => l.heading)") == ["1f1b", "zb-h1", "dualpipe"], "headings")
    check(page.value("lanes.filter(l => l.run).length") == 12, "all ranks of all runs")
    check(page.value("lastTime() === Math.max(...data.runs.map(r => r.end))"), "one time axis")


def test_headline_is_the_step_that_the_terminal_prints(page):
    said = ppsim("simulate", "1f1b", "--model", "llama3-8b", "--cluster", "dgx-h100", "--nodes", "1", "--pp", "8",
                 "--global-batch-size", "16", "--report", "model.html")
    step, pipeline = (float(s) for s in re.search(r"step ([\d.]+) s \(pipeline ([\d.]+) s, then gradients", said).groups())
    page.open("model.html")
    figures = dict(page.value("[...document.querySelectorAll('.figure')].map(f => [f.lastChild.textContent, f.firstChild.textContent])"))
    for label, expected in (("step time", step), ("pipeline alone", pipeline)):
        check(figures[label].endswith(" s") and float(figures[label][:-2]) == expected, f"the page has {figures}, the terminal {expected}")
    check("bubble of pipeline" in figures and "bubble of step" not in figures, "a bubble is of the pipeline")
    check(page.value("$('command').textContent").strip().endswith("--report model.html"), "the command is the one that ran")
    page.size(800, 600)
    page.settle()
    lines = page.value("[...document.querySelectorAll('#command span')].map(word => word.getClientRects().length)")
    check(set(lines) == {1}, "no option of the command is broken at its dashes")
    check(page.value("[...document.querySelectorAll('#ranks, #table')].every(t => t.scrollWidth <= t.parentElement.clientWidth)"),
          "the table of ranks fits a window of 800 pixels")
    page.size(1100, 800)
    page.open("compared.html")
    check(page.value("$('table').scrollWidth <= $('table').parentElement.clientWidth"), "the comparison fits a window of 1100 pixels")
    page.size(1400, 900)


def test_points_lead_to_their_plans(page):
    ppsim("plan", "--model", "llama3-8b", "--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "16", "--top", "5",
          "--against", "tp=8,pp=1", "--report", "plans.html")
    page.open("plans.html")
    points = page.value("[...document.querySelectorAll('svg a')].map(a => a.getAttribute('href').slice(1))")
    check(len(points) >= 6, "a point for each plan")
    check(all(page.value(f"document.getElementById('{point}').localName === 'tr'") for point in points), "a row for each point")
    check(page.value("document.querySelectorAll('.circle, .cross').length") >= 1, "what was asked for is marked")
    page.value("document.querySelector('svg a').focus()")
    page.key("Enter")
    page.settle()
    check(page.value("location.hash") == "#plan-1" and page.value("document.querySelector(':target').id") == "plan-1", "Enter leads to the row")
    check("ppsim simulate" in page.value("document.querySelector(':target pre').textContent"), "with its command")
    page.value("document.querySelector(':target a').click()")
    check(page.value("document.querySelector(':target').localName") == "g", "and back to the point")


def test_bars_show_what_a_step_owes(page):
    ppsim("sensitivity", "1f1b", "--ranks", "4", "--microbatches", "8", "--unit", "F=1,B=2,c=0.1", "--report", "effects.html")
    page.open("effects.html")
    widths = page.value("[...document.querySelectorAll('.fall')].map(bar => bar.width.baseVal.value)")
    names = page.value("[...document.querySelectorAll('svg text[text-anchor=end]')].map(text => text.textContent)")
    check(widths[names.index("B")] > 1.5 * widths[names.index("F")] > 0, "B weighs twice as much as F")
    check("1 % less of" in page.value("document.body.innerText"), "and the advice")


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_is_enough_for_everyone(page):
    for scheme in ("light", "dark"):
        page.colours(scheme)
        page.open("compared.html")
        check(page.value("document.documentElement.dataset.theme") == scheme, "the colours of the system")
        for back in ("panel", "page", "chosen"):
            for ink in ("ink", "soft", "good", "bad", "focus"):
                both = sorted(luminance(page.value(f"style('--{name}')")) for name in (back, ink))
                ratio = (both[1] + 0.05) / (both[0] + 0.05)
                check(ratio >= 4.5, f"{ink} on {back}, {scheme}: contrast {ratio:.2f}")


# The least contrast of what is written, and of what is drawn, with the nearest background: each as [ratio, what].
CONTRASTS = """(() => {
  const numbers = c => { const all = c.match(/[\\d.]+/g).map(Number); return all.length < 4 ? [...all, 1] : all; };
  const luminance = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const backOf = e => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255]; };
  const ratio = (ink, back) => { const [low, high] = [luminance(ink), luminance(back)].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); };
  const least = (elements, inkOf) => elements.filter(e => e.checkVisibility()).map(e => [ratio(numbers(inkOf(getComputedStyle(e), e)), backOf(e)), e.outerHTML.slice(0, 60)])
    .reduce((a, b) => b[0] < a[0] ? b : a, [99, "nothing"]);
  const hasText = e => !["SCRIPT", "STYLE", "TITLE", "title"].includes(e.tagName) && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const drawn = e => ["circle", "rect", "path"].includes(e.localName);
  return [least([...document.querySelectorAll("body *")].filter(hasText), (style, e) => e instanceof SVGElement ? style.fill : style.color),
    least([...document.querySelectorAll("svg *")].filter(drawn), style => style.fill === "none" ? style.stroke : style.fill)];
})()"""


def test_contrast_of_charts_is_enough(page):
    for scheme in ("light", "dark"):
        page.colours(scheme)
        for name in ("plans", "effects", "compared", "small"):
            page.open(name + ".html" + ("#plan-1" if name == "plans" else ""))
            (text, written), (figure, drawn) = page.value(CONTRASTS)
            check(text >= 4.5, f"{written} of {name}, {scheme}: contrast {text:.2f}")
            check(figure >= 3, f"{drawn} of {name}, {scheme}: contrast {figure:.2f}")


def test_fits_small_windows(page):
    for width, height in ((1400, 900), (800, 600)):
        page.size(width, height)
        for name in ("large", "small", "model", "compared", "plans", "effects"):
            page.open(name + ".html")
            check(page.value("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} at {width} scrolls sideways")


def test_long_names_keep_to_the_window(page):
    files = [f"{schedule}-{'x' * 200}.json" for schedule in ("1f1b", "gpipe")]
    for file in files:
        schedule = file.partition("-")[0]
        ppsim("generate", schedule, "--ranks", "2", "--microbatches", "4", "-o", file)
        with open(file) as written:
            text = written.read()
        check(f'"{schedule}"' in text, "a schedule's file has its name")
        with open(file, "w") as written:
            written.write(text.replace(f'"{schedule}"', f'"{file}"'))
    ppsim("simulate", files[0], "--unit", "F=1,B=2", "--report", "long.html")
    ppsim("compare", *files, "--unit", "F=1,B=2", "--report", "longer.html")
    for width, height in ((1400, 900), (800, 600)):
        page.size(width, height)
        for file in ("long", "longer"):
            page.open(file + ".html")
            check(page.value("document.documentElement.scrollWidth <= window.innerWidth"), f"{file} at {width} scrolls sideways")
            check(page.value("document.querySelector('#name').scrollWidth <= document.querySelector('#name').clientWidth"), f"{file}'s name is cut")


def main():
    if chromium.executable() is None:
        print("SKIPPED: no Chromium here; `scripts/test --browser` installs it", file=sys.stderr)
        return 77
    sys.argv[1] = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, chromium.Page() as page:
        os.chdir(folder)
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(page)
                print("ok", name)
        check(page.complaints == [], page.complaints)
        outside = [url for url in page.requests if not url.startswith("file://")]
        check(outside == [], f"the page asks for {outside}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
