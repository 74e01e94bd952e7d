#!/usr/bin/env python3
"""Sums over processes on hosts whose links have a bandwidth (network namespaces; the kernel's token bucket, tbf), beside what
docs/cluster.md computes: 8 P (N - 1) / N bytes each way. Needs root.

    bench/group_add.py [FLOATS] [MEGABITS …]
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
import hosts  # noqa: E402

BUILD = os.path.join(ROOT, "build")


def measure(processes, floats, megabits):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bench/group_add", "libtapedeck-mpi-openmpi.so"):  # a program looks for plugins beside itself
            shutil.copy(os.path.join(BUILD, name), folder)
        network = hosts.Hosts(processes, folder)
        try:
            for i in range(processes):
                hosts.ip("netns", "exec", network.prefix + str(i), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{megabits}mbit",
                         "burst", "64kb", "latency", "20ms")
            environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TAPEDECK_GROUP_TIMEOUT="60")
            done = subprocess.run(network.command(processes, os.path.join(folder, "group_add"), str(floats), "3"), env=environment, check=True, text=True,
                                  capture_output=True)
            return float(done.stdout.split()[-1])
        finally:
            network.remove()


def main():
    floats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000000
    speeds = list(map(int, sys.argv[2:])) or [100, 1000]
    print(f"{floats} floats\n{'Mbit/s':>7} {'processes':>9} {'on paper ms':>12} {'measured ms':>12}")
    for megabits in speeds:
        for processes in (2, 4, 8):
            paper = 8 * floats * (processes - 1) / processes * 8 / (megabits * 1e6) * 1000
            print(f"{megabits:7} {processes:9} {paper:12.1f} {measure(processes, floats, megabits):12.1f}", flush=True)


main()
