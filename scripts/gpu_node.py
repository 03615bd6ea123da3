"""The questions of scripts/gpu_check --node to all devices of a host, and to several hosts of a Slurm job."""

import os
import socket
import time

from gpu_session import LEFT_OUT, answer_of, is_left_out, shortened, verdict_of

# Seconds for a step of a run, after which it gives up, and for a whole question.
STEP_S, QUESTION_S = 20, 75
UPDATES = ["--with", "reduce-grad,opt,clip"]
# The programs that are run by each of MEANS: messages alone, both kinds of backward in a V, and sums over two ranks with updates.
PROGRAMS = {"1f1b": [], "zb-v": UPDATES, "chimera": UPDATES}

EVEN = {"chimera"}  # its two pipelines take half of the ranks each

# How the ranks of one host exchange messages: transport, a process for each device, more options.
MEANS = {
    "copies of one process, streamed": ("copy", False, []),
    "copies of one process, as a graph": ("copy", False, ["--graphs"]),
    "copies between processes by CUDA IPC, streamed": ("copy", True, []),
    "NCCL in one process, streamed": ("nccl", False, []),
    "NCCL between processes, streamed": ("nccl", True, []),
    "NCCL between processes, as graphs": ("nccl", True, ["--graphs"]),
}


def devices_of(session):
    """How many devices the driver shows."""
    details = [check["detail"] for check in session.doctor()["checks"] if check["check"] == "backend cuda"]
    return sum(detail.count(" multiprocessors of capability ") for detail in details)


# On the strict fake, where the processor computes: as small as a transformer may be.
SMALL = ["--transformer", "hidden=8,heads=2,ffn=8,vocab=8,sequence=4"]


def run_arguments(schedule, ranks, transport, more):
    return ["run", schedule, "--ranks", str(ranks), "--microbatches", str(2 * ranks), "--backend", "cuda", "--transport",
            transport, "--arithmetic", "integer", "--steps", "2", "--deadline", str(STEP_S), "--compare", "--json", *more]


def member(rank, size, port):
    """As torchrun tells a process who it is."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}


def in_processes(session, command, size):
    """The answer of process 0. All end when the time of the question is over, or soon after the first has ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if session.left_s() <= 1:
        return answer_of(session.run(command, QUESTION_S))
    begin = time.monotonic()
    started = [session.start(command, member(rank, size, port)) for rank in range(size)]
    done = [session.finish(process, command, max(5, QUESTION_S - (time.monotonic() - begin))) for process in started]
    failed = {str(rank): shortened(one["stderr"], 500) for rank, one in enumerate(done) if one["exit"] != 0}
    exits = [one["exit"] for one in done]
    # Where the time was over for one, others fail for that alone.
    late = {"exit": LEFT_OUT} if LEFT_OUT in exits else {}
    return {**answer_of(done[0]), **({"exits": exits, "failures": failed} if failed else {}), **late}


def ask(session, schedule, ranks, means, model):
    transport, apart, more = MEANS[means]
    command = [session.program("ppsim"),
               *run_arguments(schedule, ranks, transport, [*PROGRAMS[schedule], *more, *model])]
    if apart:
        return in_processes(session, command, ranks)
    return answer_of(session.run(command, QUESTION_S))


def on_hosts(session, nodes, each, arguments):
    """By srun, a process for each device of every host."""
    return answer_of(session.run(["srun", f"--nodes={nodes}", f"--ntasks={nodes * each}", f"--ntasks-per-node={each}",
                                  f"--gpus-per-node={each}", "--kill-on-bad-exit=1", session.program("ppsim"),
                                  *arguments], QUESTION_S))


def programs_for(ranks):
    return {schedule: more for schedule, more in PROGRAMS.items() if ranks % 2 == 0 or schedule not in EVEN}


def host_questions(session, ranks, model):
    for means in MEANS:
        for schedule in programs_for(ranks):
            answer = ask(session, schedule, ranks, means, model)
            yield f"{schedule} on {ranks} devices: {means}", answer, equal(answer)


def nodes_questions(session, nodes, each, model):
    """Copies do not leave a host, and say so before the first step."""
    ranks = nodes * each
    for how, more in {"streamed": [], "as graphs": ["--graphs"]}.items():
        for schedule, with_it in programs_for(ranks).items():
            answer = on_hosts(session, nodes, each,
                              run_arguments(schedule, ranks, "nccl", [*with_it, *more, *model]))
            yield f"{schedule} on {ranks} devices of {nodes} hosts: NCCL, {how}", answer, equal(answer)
    answer = on_hosts(session, nodes, each, run_arguments("1f1b", ranks, "copy", model))
    yield (f"copies between {nodes} hosts are refused", answer,
           "copies need all processes on one host" in answer.get("failure", ""))


def equal(answer):
    return answer.get("gradients_equal") is True and "exits" not in answer


TOLD = {True: "right", False: "WRONG", None: "left out"}


def check_node(session, machine):
    """Whether all questions have the answer that they should, None where nothing is wrong and there was no time for all;
    each is on disk when the next is put."""
    each = devices_of(session)
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    model = SMALL if session.on_fake() else []
    for ranks in dict.fromkeys((each, nodes * each)):
        for schedule in PROGRAMS.keys() - programs_for(ranks):
            print(f"left out  {schedule} on {ranks} devices: it takes an even number of them")
    rows = []
    questions = [host_questions(session, each, model)]
    questions += [nodes_questions(session, nodes, each, model)] if nodes > 1 else []
    for one in questions:
        for question, answer, good in one:
            good = None if is_left_out(answer) else good
            rows.append({"question": question, "good": good, "answer": answer})
            print(f"{TOLD[good]}  {question}")
            session.write("node.json", {"machine": machine, "devices": each, "hosts": nodes, "questions": rows})
    late = sum(row["good"] is None for row in rows)
    print(f"node: {sum(row['good'] is True for row in rows)} of {len(rows)} right, "
          f"{f'{late} left out for lack of time, ' if late else ''}on {each} devices of {nodes} "
          f"host{'s' if nodes > 1 else ''}{' of the strict fake: nothing was measured' if model else ''}")
    return bool(rows) and verdict_of(row["good"] for row in rows)
