"""Types the begin of a command line into an interactive shell, then TAB, and prints the line that the shell makes of it:
complete.py bash|zsh|fish COMPLETION BEGIN... (one line each; COMPLETION is the script, ppsim is on the PATH; for zsh it may
be a folder with _ppsim, as packages have it)."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios

QUIET_S = 0.4  # the shell has drawn everything
LIMIT_S = 60
LINE = r"[\r\n]<(ppsim [^\r\n>]*?) ?>\r\n"  # as echo prints it
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
SETTINGS = {
    "bash": "source {0}",
    "zsh": "autoload -U compinit; compinit -u -D; bindkey -e; PROMPT=; source {0}",
    "fish": "source {0}; set -g fish_autosuggestion_enabled 0",
}
if os.path.isdir(sys.argv[2]):
    SETTINGS["zsh"] = "fpath+={0}; autoload -U compinit; compinit -u -D; bindkey -e; PROMPT="


class Shell:
    def __init__(self, name, completion):
        child, self.terminal = pty.fork()
        if child == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", HOME=os.getcwd())
            os.execvp(name, START[name])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))
        self.read_until(None)
        self.send(SETTINGS[name].format(completion) + "; echo loaded-$(ppsim list policies | wc -l)\r")
        self.read_until(r"loaded-\s*[1-9]")
        self.read_until(None)

    def send(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, pattern):
        """Returns the output of the shell up to the pattern, or until it is quiet."""
        text = ""
        while select.select([self.terminal], [], [], LIMIT_S if pattern else QUIET_S)[0]:
            text += os.read(self.terminal, 65536).decode(errors="replace")
            if pattern and re.search(pattern, text):
                return text
        if pattern:
            sys.exit(f"the shell does not answer {pattern}: {text!r}")
        return text

    def completed(self, begin):
        self.send(begin + "\t")
        self.read_until(None)
        self.send("\x01echo '<'\x05'>'\r")  # in front of the line and after it
        return re.search(LINE, self.read_until(LINE))[1]


shell = Shell(sys.argv[1], sys.argv[2])
for line in sys.argv[3:]:
    print(shell.completed(line))
