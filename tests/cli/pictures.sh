#!/usr/bin/env bash
# Pictures for papers: SVG and PDF, their widths and what they refuse.
source "$(dirname "$0")/support/lib.sh"
size=(--ranks 4 --microbatches 8)

cat >pdf.py <<'PYTHON'
"""The texts and the size of a PDF in points; every object is where its table says."""
import re, sys
data = open(sys.argv[1], "rb").read()
assert data.startswith(b"%PDF-1.4\n") and data.endswith(b"%%EOF\n")
start = int(re.search(rb"startxref\n(\d+)\n", data)[1])
assert data[start:].startswith(b"xref\n0 7\n")
offsets = [int(row[:10]) for row in data[start:].split(b"\n")[3:9]]
for number, offset in enumerate(offsets, 1):
    assert data[offset:].startswith(b"%d 0 obj\n" % number), number
stream = re.search(rb"/Length (\d+) >>\nstream\n", data)
assert data[stream.end() + int(stream[1]):].startswith(b"endstream")
assert not re.search(rb"\d[eE][-+]\d", data[stream.end():stream.end() + int(stream[1])]), "PDF has no exponents"
print(re.search(rb"/MediaBox \[0 0 ([\d. ]+)\]", data)[1].decode())
for text in re.findall(rb"\((.*?[^\\])\) Tj", data):
    print(text.decode("latin-1").replace("\\", ""))
PYTHON
pdf() { python3 pdf.py "$1" >stdout 2>stderr || fail "$1 is no PDF"; }

expect_exit 0 show zb-v "${size[@]}" --unit F=1,B=2,A=1e9 --memory -o zb-v.pdf --title "ZB-V (b) \\ für 4"
pdf zb-v.pdf
for text in "ZB-V (b)  für 4" "rank 3" 7 "F forward" "idle" "time in units of the costs" "memory; lighter lines: later ranks"; do
  grep -qxF -- "$text" stdout || fail "the PDF has no text: $text"
done
# Of a trace, too; both need sizes.
expect_exit 0 simulate 1f1b "${size[@]}" --unit F=1,B=2,A=1e9 --trace steps.csv
expect_exit 0 show 1f1b "${size[@]}" --unit F=1,B=2,A=1e9 --trace steps.csv --memory -o traced.svg
grep -q "memory of rank 3: peak 1 GB" traced.svg || fail "the memory of a trace"
expect_error 2 "--memory needs sizes" "" show 1f1b "${size[@]}" --trace steps.csv --memory -o none.svg
# Padding, which SPMD computes in its bubbles, has no number.
expect_exit 0 show spmd-gpipe --ranks 4 --microbatches 6 -o padded.svg
grep -q "padding" padded.svg || fail "no padding in the legend"
! grep -qE "later route|>11</text>" padded.svg || fail "padding with a number"
expect_exit 0 show spmd-gpipe --ranks 4 --microbatches 6
expect_out "· padding"
! grep -q "F11" stdout || fail "padding with a number"
# Letters within the picture, whatever its width: a text that is too long has several lines.
expect_within() {
  python3 - <<'PYTHON' || fail "a text is clipped: $*"
import re
svg = open("columns.svg").read()
width = float(re.search(r'width="(\d+)"', svg)[1])
for x, style, text in re.findall(r'<text x="([\d.]+)" y="[\d.]+"([^>]*)>([^<]*)<', svg):
    size = re.search(r'font-size="([\d.]+)"', style)
    size = float(size[1]) if size else 11
    if "anchor" not in style and ("bold" in style or not size < 11):
        assert float(x) + 6.2 * size / 11 * len(text) <= width + 1, text
        assert size >= 11, f"{text} in letters of {size}"
PYTHON
}
long="A title that is longer than any column of a paper is wide, as titles of figures are when they say what is in them"
for width in 120 160 220 336 500; do
  expect_exit 0 show zb-v "${size[@]}" --unit F=1,B=2,A=1e9 --memory -o columns.svg --width $width --title "$long"
  expect_within --width $width
  grep -q ">memory" columns.svg || fail "no legend"
done
expect_exit 0 compare dualpipe 1f1b "${size[@]}" --unit F=1,B=2 --svg columns.svg --columns 1 --title "$long"
expect_within compare
expect_error 2 "too narrow for its legend" "at least 120 pixels" show zb-v "${size[@]}" -o x.svg --width 119

# The widths of columns, in points; the legend is within them.
for width in "1 252" "2 515"; do
  expect_exit 0 show zb-v "${size[@]}" -o columns.pdf --columns "${width% *}"
  pdf columns.pdf
  [[ $(head -1 stdout) == "${width#* }"* ]] || fail "a figure over ${width% *} columns is $(head -1 stdout) points"
  expect_exit 0 show zb-v "${size[@]}" -o columns.svg --columns "${width% *}"
  expect_within --columns "${width% *}"
done
# The same picture twice has the same bytes; stdout has it, too.
expect_exit 0 show zb-v "${size[@]}" --format pdf --columns 2
cmp -s stdout <("$ppsim" show zb-v "${size[@]}" --format pdf --columns 2) || fail "the same figure has other bytes"
cp stdout out.pdf && pdf out.pdf
expect_exit 0 compare gpipe 1f1b "${size[@]}" --unit F=1,B=2 --figure both.pdf --title Both
pdf both.pdf
for text in Both gpipe 1f1b "F forward"; do grep -qxF -- "$text" stdout || fail "the PDF has no text: $text"; done
expect_exit 0 compare gpipe 1f1b "${size[@]}" --unit F=1,B=2 --svg both.svg --columns 1
grep -q 'width="336"' both.svg || fail "one column is 336 pixels"

expect_error 2 "--font is for svg" "--font with pdf" show 1f1b "${size[@]}" -o x.pdf --font Times
expect_error 2 "the font of a PDF lacks letters of --title" "found λ" show 1f1b "${size[@]}" -o x.pdf --title λ
expect_error 2 "the font of a PDF lacks letters of --title" "found λ" compare gpipe 1f1b "${size[@]}" --unit F=1 --figure x.pdf --title λ
expect_error 2 "--width and --columns do not go together" "found both" show 1f1b "${size[@]}" -o x.pdf --columns 1 --width 100
expect_error 2 "bad value for --columns" "found 3" show 1f1b "${size[@]}" -o x.pdf --columns 3
expect_error 2 "--format is another one" "found --format pdf -o x.svg" show 1f1b "${size[@]}" -o x.svg --format pdf
[ ! -e x.pdf ] || fail "what is refused is not written"
