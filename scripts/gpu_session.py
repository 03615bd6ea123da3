"""Shared parts of scripts/gpu_check and scripts/gpu_bench: programs, libraries, a time limit, results on disk."""

import atexit
import contextlib
import glob
import json
import os
import platform
import re
import shlex
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_GPU = 3
INTERRUPTED = 130
INCOMPLETE = 4  # nothing is wrong, and for something there was no time
SKIPPED = 77
LEFT_OUT = "left out"  # instead of an exit code, where there was no time left: before it began, or to its end

# Where pip's packages of NVIDIA and the toolkit keep the libraries that the backend opens at run time.
LIBRARIES = {
    "PPSIM_CUBLASLT_LIBRARY": "libcublasLt.so.13",
    "PPSIM_NCCL_LIBRARY": "libnccl.so.2",
}


# Where the driver's libraries lie on machines whose loader does not know of them.
DRIVER_FOLDERS = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]


def library_folders():
    packages = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    folders = [f"{package}/nvidia/*/lib" for package in dict.fromkeys(packages) if package]
    return folders + ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu"]


def loadable(name):
    """Whether the loader finds a library by its name."""
    done = subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{name}')"], capture_output=True)
    return done.returncode == 0


def library_environment():
    """Paths of libraries that the loader does not find by itself; what the user has set stays."""
    found = {}
    for variable, name in LIBRARIES.items():
        if os.environ.get(variable) or loadable(name):
            continue
        for folder in library_folders():
            paths = sorted(glob.glob(f"{folder}/{name}"))
            if paths:
                found[variable] = paths[-1]
                break
    return found


def driver_folder():
    """Returns the folder that the loader needs to find the driver; None where it needs none, or there is no driver."""
    if loadable("libcuda.so.1"):
        return None
    return next((folder for folder in DRIVER_FOLDERS if os.path.exists(f"{folder}/libcuda.so.1")), None)


class Session:
    """Programs of this repository, run one after the other within a time limit. A signal to end is the end of that time:
    a running program is ended, later questions are left out, and answers so far are kept."""

    def __init__(self, out, limit_s):
        self.running = set()  # processes that were started and have not been finished
        self.interrupted = False
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(one) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(one, lambda number, frame: self.interrupt())
        atexit.register(self.end_all, signal.SIGKILL)
        self.begin = time.monotonic()
        self.limit_s = limit_s
        self.out = out
        self.folder = None  # of a bundle that is unpacked
        self.bin = os.environ.get("PPSIM_BIN") and os.path.abspath(os.environ["PPSIM_BIN"])
        if not self.bin:
            self.bin = f"{ROOT}/build/release/bin"
            if subprocess.run([f"{ROOT}/scripts/build", "release"], stdout=sys.stderr).returncode != 0:
                sys.exit("the programs cannot be built; PPSIM_BIN names built ones")
            self.begin = time.monotonic()  # compiling is no part of the limit
        elif os.path.isfile(self.bin):
            self.bin = self.unpacked(self.bin)
        # As ppsim sets it: over NCCL a stream that waits holds up none that shares its queue.
        # cuBLASLt says why it refuses a product.
        self.environment = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUBLASLT_LOG_LEVEL": "1", **os.environ,
                            **library_environment()}
        own = f"{self.bin}/lib"
        paths = [own if os.path.isdir(own) else None, os.environ.get("LD_LIBRARY_PATH"), driver_folder()]
        if any(paths):
            self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))

    def unpacked(self, bundle):
        """The folder of a bundle's programs, which goes with this process. It is beside the results: other hosts of a job
        have that place as well, while /tmp is a host's own."""
        beside = os.path.dirname(os.path.abspath(self.out))
        try:
            os.makedirs(beside, exist_ok=True)
            self.folder = tempfile.TemporaryDirectory(prefix="ppsim-bundle-", dir=beside)
        except OSError as error:
            sys.exit(f"the bundle {bundle} cannot be unpacked beside the results: {error}; name another FOLDER")
        try:
            with tarfile.open(bundle) as archive:
                archive.extractall(self.folder.name)
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            sys.exit(f"PPSIM_BIN={bundle} is neither a folder with programs nor a bundle of scripts/gpu_bundle: {error}")
        return self.folder.name

    def interrupt(self):
        self.interrupted = True
        self.end_all(signal.SIGTERM)
        late = threading.Timer(3, self.end_all, [signal.SIGKILL])
        late.daemon = True
        late.start()

    def end_all(self, by):
        for process in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, by)

    def left_s(self):
        if self.interrupted:
            return 0
        return self.limit_s - (time.monotonic() - self.begin)

    @contextlib.contextmanager
    def share(self, seconds):
        """A part of the time for what must leave some to others."""
        limit_s = self.limit_s
        self.limit_s = min(limit_s, limit_s - self.left_s() + seconds)
        try:
            yield
        finally:
            self.limit_s = limit_s

    def program(self, name):
        return f"{self.bin}/{name}"

    def tests(self, name):
        """Where an executable of tests is; none where it is not."""
        places = [f"{self.bin}/{name}"]
        if self.folder is None:  # no bundle
            places.append(f"{os.path.dirname(self.bin)}/tests/{name}")
        return next((place for place in places if os.path.exists(place)), None)

    def start(self, command, more_environment=None):
        # A program that is missing or does not fit the machine is a failure like others.
        process = subprocess.Popen(["env", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                   errors="replace", start_new_session=True,
                                   env={**self.environment, **(more_environment or {})})
        self.running.add(process)
        if self.interrupted:  # while it was started
            self.interrupt()
        return process

    def finish(self, process, command, timeout_s, left_s=None):
        """Waits for the processes that were started. None is left running when it is too late."""
        begin = time.monotonic()
        left_s = self.left_s() if left_s is None else left_s
        try:
            output, errors = process.communicate(timeout=max(1, min(timeout_s, left_s)))
            code = process.returncode
        except subprocess.TimeoutExpired:
            code = "timeout" if timeout_s <= left_s + 1 else LEFT_OUT
            output, errors = killed(process)
        self.running.discard(process)
        if self.interrupted:
            code = LEFT_OUT
        return {"command": shlex.join(relative(command)), "exit": code,
                "seconds": round(time.monotonic() - begin, 2), "stdout": output, "stderr": shortened(errors, 4000)}

    def run(self, command, timeout_s, more_environment=None):
        if self.left_s() <= 1:
            return {"command": shlex.join(relative(command)), "exit": LEFT_OUT, "seconds": 0, "stdout": "",
                    "stderr": "the time is over"}
        return self.finish(self.start(command, more_environment), command, timeout_s)

    @staticmethod
    def debugger():
        """A command that runs another one and prints the stack where it ends by a signal; none where there is none."""
        found = shutil.which("gdb") or shutil.which("cuda-gdb")
        return found and [found, "-batch", "-ex", "run", "-ex", "backtrace 25", "--args"]

    def ppsim(self, arguments, timeout_s):
        return self.run([self.program("ppsim"), *arguments], timeout_s)

    def probe(self, arguments, timeout_s, more_environment=None):
        """A question to the machine: its answer, or what went wrong."""
        return answer_of(self.run([self.program("ppsim_gpu_probe"), *arguments], timeout_s, more_environment))

    def look(self, command, timeout_s):
        """Runs a command that is no measurement: it may run even when the limit is over."""
        if self.interrupted:
            return self.run(command, timeout_s)
        return self.finish(self.start(command), command, timeout_s, timeout_s)

    def doctor(self):
        return parsed(self.look([self.program("ppsim"), "doctor", "--json"], 45)) or {"checks": []}

    def on_fake(self):
        """Whether devices are the strict fake's, which computes on the processor and measures nothing."""
        return any("strict fake with " in check["detail"] for check in self.doctor()["checks"])

    def served(self):
        """Returns the program that runs a command on the strict fake, and one for a job of two hosts; None beside a bundle."""
        folder = os.path.join(os.path.dirname(self.bin), "tests", "served_gpu")
        served = os.path.join(folder, "served_gpu")
        return (served, os.path.join(ROOT, "tests", "served_gpu", "two_hosts")) if os.path.exists(served) else None

    def rehearse_served(self, devices, arguments, hosts=1):
        """This script once more on the strict fake, within the limit; two hosts where somebody may make them, else one."""
        served = self.served()
        if served is None:
            return None
        limit_s = max(1, int(self.left_s()))
        inner = ["--limit", str(max(1, limit_s - 10))]  # so that its answer comes before it is ended
        command = [served[0], "--devices", str(devices), sys.executable, arguments[0], *inner, *arguments[1:]]
        environment = {"PPSIM_BIN": os.path.dirname(served[0])}
        done = {"exit": SKIPPED}
        if hosts == 2:
            done = self.finish(self.start([served[1], *command], environment), command, limit_s, limit_s)
        if done["exit"] == SKIPPED:
            done = self.finish(self.start(command, environment), command, limit_s, limit_s)
        return done

    def why_no_gpu(self):
        """Nothing where there is one. Ends with 1 where not even that can be asked."""
        done = self.look([self.program("ppsim"), "doctor", "--json"], 45)
        answer = parsed(done)
        if self.interrupted:
            sys.exit(INTERRUPTED)
        if answer is None:
            sys.exit(f"{done['command']} does not run here: exit {done['exit']}: {done['stderr'].strip()}")
        details = [check["detail"] for check in answer["checks"] if check["check"] == "backend cuda"]
        return next((detail for detail in details if detail.startswith("not here")), None) if details else "not built"

    def machine(self):
        """Returns the description of the machine, as far as it tells."""
        smi = self.look(["sh", "-c", "nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,"
                        "power.limit,temperature.gpu --format=csv"], 30)
        built = f"{self.bin}/commit"  # of a bundle, which comes without a repository
        commit = self.look(["cat", built] if os.path.exists(built) else ["git", "rev-parse", "HEAD"], 10)
        return {"doctor": self.doctor(), "nvidia_smi": smi["stdout"].strip().splitlines(),
                "processor": processor(), "cores": os.cpu_count(), "system": platform.platform(),
                "commit": commit["stdout"].strip() or None,
                "libraries": {name: self.environment.get(name) for name in LIBRARIES},
                "command": shlex.join(relative(sys.argv)),
                "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}

    @contextlib.contextmanager
    def clock(self):
        """Reads the first GPU while something else runs: rows of seconds, clock in MHz, power in W, temperature in degrees C
        and the mask of reasons why the clock is no higher. They are complete at the end; none without nvidia-smi."""
        rows = []
        try:
            process = subprocess.Popen(
                ["nvidia-smi", "--id=0", "--query-gpu=clocks.sm,power.draw.instant,temperature.gpu,clocks_event_reasons.active",
                 "--format=csv,noheader,nounits", "--loop-ms=50"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            yield rows
            return
        begin = time.monotonic()

        def read():
            for line in process.stdout:
                cells = [number_of(cell.strip()) for cell in line.split(",")]
                if len(cells) == 4:
                    rows.append([round(time.monotonic() - begin, 3), *cells])

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield rows
        finally:
            process.terminate()
            process.wait()
            reader.join()

    def check_folder(self):
        """Ends with 1 where results cannot be written."""
        try:
            os.makedirs(self.out, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.out):
                pass
        except OSError as error:
            sys.exit(f"results cannot be written in {self.out}: {error.strerror}")

    def write(self, name, result):
        """Replaces a file of results in one step; none of what is only rehearsed."""
        if self.out is None:
            return
        os.makedirs(self.out, exist_ok=True)
        path = os.path.join(self.out, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(without_folders(json_text(result)) + "\n")
        os.replace(path + ".new", path)


def number_of(text):
    """A number where the text is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def json_text(result):
    """Readable at the top, one line for each item of a list."""
    lines = []
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n".join("    " + json.dumps(item) for item in value)
            lines.append(f"  {json.dumps(key)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def killed(process):
    """Ends a process with all that it started; a device that hangs may keep even that from ending. srun has to end its
    step on other hosts first."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        return "", "it could not be ended"


def is_left_out(answer):
    """Whether there was no time for a question, or for a part of it."""
    return any(one.get("exit") == LEFT_OUT for one in (answer if isinstance(answer, list) else [answer]))


def verdict_of(verdicts):
    """Of several, each of which is True, False, or None where there was no time to find it: the same."""
    found = list(verdicts)
    return False if False in found else None if None in found else True


def shortened(text, size):
    """The beginning and the end of a longer text: the first line has the reason, and the last one the place."""
    left_out = len(text) - size
    if left_out <= 0:
        return text
    return f"{text[:size // 2]}\n[{left_out} characters are left out here]\n{text[-(size // 2):]}"


def without_folders(text):
    """Of paths on the machine that measured, the name alone: what else they hold tells a reader nothing."""
    return re.sub(r"(?<![\w./])/(?!dev/|proc/|sys/)(?:[\w.+-]+/)+([\w.+-]+)", r"\1", text)


def relative(command):
    return [os.path.relpath(part, ROOT) if part.startswith(ROOT + "/") else part for part in command]


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), None)
    except OSError:
        return None


def parsed(done):
    """The JSON that a program printed; none where it is not JSON."""
    try:
        return json.loads(done["stdout"])
    except json.JSONDecodeError:
        return None


def answer_of(done):
    answer = parsed(done)
    if done["exit"] == 0 and isinstance(answer, dict):
        return {"command": done["command"], "seconds": done["seconds"], **answer}
    return {"command": done["command"], "seconds": done["seconds"], "exit": done["exit"],
            "failure": done["stderr"].strip()}
