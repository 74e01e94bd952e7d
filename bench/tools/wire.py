"""Two hosts on one machine, joined by a wire of a bandwidth and a delay: network namespaces with a TAP device each, and a process that carries
frames from one to the other. The kernel's netem does that better, and is not in every kernel. Frames have 64 KiB, so that carrying them takes
little of the processor's time (printed at the end); nothing is lost or reordered. Needs root.

    wire = Wire(megabits=1000, milliseconds=1, folder=…); wire.run(…); wire.remove()
"""
import collections
import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import time

MTU, TUNSETIFF, TAP, NO_HEADER, NEWNET = 65521, 0x400454CA, 2, 0x1000, 0x40000000
AGENT = "#!/bin/sh\nshift\nexec ip netns exec {name} unshare --uts sh -c \"hostname {name}; $*\"\n"


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)


def open_tap(namespace):
    """The device eth0 of a namespace, by a child's descriptor table: this process stays where it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", encoding="ascii") as own, open(f"/run/netns/{namespace}", encoding="ascii") as there:
        assert libc.setns(there.fileno(), NEWNET) == 0, os.strerror(ctypes.get_errno())
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", TAP | NO_HEADER))
        assert libc.setns(own.fileno(), NEWNET) == 0
    return tap


def carry(taps, megabits, milliseconds):
    """Frames from each to the other: one after the other at this rate, each so much later at its end."""
    queues, free = [collections.deque(), collections.deque()], [0.0, 0.0]
    while True:
        now = time.monotonic()
        for i, queue in enumerate(queues):
            while queue and queue[0][0] <= now:
                os.write(taps[1 - i], queue.popleft()[1])
        due = min((queue[0][0] for queue in queues if queue), default=now + 1)
        for tap in select.select(taps, [], [], max(0, due - time.monotonic()))[0]:
            i = taps.index(tap)
            frame = os.read(tap, MTU + 64)
            free[i] = max(time.monotonic(), free[i]) + len(frame) * 8 / (megabits * 1e6)
            queues[i].append((free[i] + milliseconds / 1000, frame))


class Wire:
    def __init__(self, megabits, milliseconds, folder):
        self.names = [f"tdw{os.getpid()}-{i}" for i in range(2)]
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(name=self.names[1]))
        os.chmod(self.agent, 0o755)
        taps = []
        for i, name in enumerate(self.names):
            ip("netns", "add", name)
            taps.append(open_tap(name))
            for words in (["addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0"], ["link", "set", "lo", "up"],
                          ["link", "set", "eth0", "mtu", str(MTU), "up"]):
                ip("-n", name, *words)
        self.carrier = os.fork()
        if self.carrier == 0:
            os.nice(-10)
            carry(taps, megabits, milliseconds)
        for tap in taps:
            os.close(tap)

    def on(self, host, words):
        """The command, on that host."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c", f"hostname {self.names[host]}; exec \"$@\"", "sh", *words]

    def mpirun(self, words):
        """One process on each host."""
        return self.on(0, ["mpirun.openmpi", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                           "--mca", "oob_tcp_if_include", "eth0", "--bind-to", "none", "-host", f"{self.names[0]},10.78.0.2", "-n", "2", *words])

    def remove(self):
        """Returns the seconds of processor time that carrying took."""
        os.kill(self.carrier, signal.SIGKILL)
        used = os.wait4(self.carrier, 0)[2]
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        return used.ru_utime + used.ru_stime
