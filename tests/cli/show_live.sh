#!/usr/bin/env bash
# show --live: keys scroll and zoom, the terminal is restored afterwards; output that is no terminal is refused.
source "$(dirname "$0")/support/lib.sh"

expect_error 2 "--live needs a terminal" "a file or a pipe" show 1f1b --ranks 4 --microbatches 8 --live
expect_error 2 "--live shows nothing but the timeline" "-o picture.svg" show 1f1b --ranks 4 --microbatches 8 --live -o picture.svg

cat >drive.py <<'END'
import fcntl, os, pty, re, select, struct, sys, termios

def screen(fd, last):
    """Returns the drawn text, without colours, once nothing has come for a while and the axis is drawn."""
    text = b""
    while select.select([fd], [], [], 60 if not text or last not in text else 0.5)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())

child, fd = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm-256color"
    os.execv(sys.argv[1], [sys.argv[1], "show", "1f1b", "--ranks", "32", "--microbatches", "8", "--unit", "F=1,B=2", "--live"])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
before = termios.tcgetattr(fd)[3]
first = screen(fd, b"Q ends")
first = first[first.rindex("rank 0"):]
assert "rank 6 " in first and "rank 7 " not in first and "117 ms" in first and "F  forward" in first, first
assert max(len(line) for line in first.split("\r\n")) <= 80, first

def after(key):
    os.write(fd, key)
    return screen(fd, b"Q ends")

assert "rank 7 " in after(b"\x1b[B"), "down"
assert "rank 0 " in after(b"\x1b[A"), "up"
zoomed = after(b"+")
assert re.search(r"29\.25 ms +87\.75 ms", zoomed), zoomed
moved = after(b"\x1b[C\x1b[C")
assert re.search(r"43\.8\d* ms +102\.\d+ ms", moved), moved
assert re.search(r"0 +117 ms", after(b"0")), "whole"
os.write(fd, b"q")
screen(fd, b"nothing")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "Q ends"
END
timeout "$limit_s" python3 drive.py "$ppsim" >stdout 2>stderr || fail "the keys of --live"
