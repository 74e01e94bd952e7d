#!/usr/bin/env python3
"""Sums over processes on hosts whose links have a bandwidth (network namespaces; the kernel's token bucket, tbf), beside what
docs/cluster.md computes: 8 P (N - 1) / N bytes each way, and headers. Needs root.

    bench/group_add.py [FLOATS] [MEGABITS …] [--slow-start]

--slow-start: connections begin slowly after they were idle for 0.2 s, as is Linux's default; partners change from round to round, so most of
them are affected. Without it that is switched off on the hosts (net.ipv4.tcp_slow_start_after_idle=0).
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
import hosts  # noqa: E402

HEADERS = 1514 / 1448  # of Ethernet, IP and TCP, in frames of 1500 bytes
BUILD = os.path.join(ROOT, "build")


def measure(processes, floats, megabits, slow_start):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bench/group_add", "libtapedeck-mpi-openmpi.so"):  # a program looks for plugins beside itself
            shutil.copy(os.path.join(BUILD, name), folder)
        network = hosts.Hosts(processes, folder)
        try:
            for i in range(processes):
                hosts.ip("netns", "exec", network.prefix + str(i), "sh", "-c",
                         f"echo {int(slow_start)} > /proc/sys/net/ipv4/tcp_slow_start_after_idle")
                hosts.ip("netns", "exec", network.prefix + str(i), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{megabits}mbit",
                         "burst", "64kb", "latency", "200ms")
            environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TAPEDECK_GROUP_TIMEOUT="60")
            done = subprocess.run(network.command(processes, os.path.join(folder, "group_add"), str(floats), "3"), env=environment, check=True, text=True,
                                  capture_output=True)
            return float(done.stdout.split()[-1])
        finally:
            network.remove()


def main():
    numbers = [word for word in sys.argv[1:] if word != "--slow-start"]
    slow_start = len(numbers) + 1 < len(sys.argv)
    floats = int(numbers[0]) if numbers else 1000000
    speeds = list(map(int, numbers[1:])) or [100, 1000]
    print(f"{floats} floats\n{'Mbit/s':>7} {'processes':>9} {'on paper ms':>12} {'measured ms':>12}")
    for megabits in speeds:
        for processes in (2, 4, 8):
            paper = 8 * floats * (processes - 1) / processes * 8 / (megabits * 1e6) * 1000 * HEADERS
            print(f"{megabits:7} {processes:9} {paper:12.1f} {measure(processes, floats, megabits, slow_start):12.1f}", flush=True)


main()
