"""Hosts of a network on one machine: each is a network namespace with a name of its own, an interface eth0 of 10.77.0.N, and a cable to a
switch, which can be pulled. Needs root."""
import os
import signal
import subprocess

AGENT = """#!/bin/sh
# What OpenMPI starts in place of ssh: HOST COMMAND…
host={prefix}$((${{1##*.}} - 1))
shift
exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"
"""
# Messages by TCP over eth0. OpenMPI's own connections notice by keepalive that a host is gone; where something was sent meanwhile that is by
# TCP's retries, of which Linux makes 15, for a quarter of an hour: RETRIES are over within 2 seconds.
RETRIES = 2
OPTIONS = ["--mca", "btl", "tcp,self", "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0",
           "--mca", "oob_tcp_keepalive_time", "1", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca", "oob_tcp_keepalive_probes", "3"]


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)


def are_possible():
    if os.getuid() != 0:
        return False
    name = f"tdt{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        ip("netns", "del", name)
    return made


class Hosts:
    """count hosts for processes, and one more for the launcher."""

    def __init__(self, count, folder):
        self.count, self.prefix, self.made = count, f"td{os.getpid()}-", []
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(prefix=self.prefix))
        os.chmod(self.agent, 0o755)
        try:
            self.switch = self.make("switch")
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for i in range(count + 1):
                self.connect(self.make(str(i)), i)
        except BaseException:
            self.remove()
            raise

    def make(self, name):
        ip("netns", "add", self.prefix + name)
        self.made.append(self.prefix + name)
        return self.prefix + name

    def connect(self, host, i):
        ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
        ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
        ip("-n", host, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
        ip("-n", host, "link", "set", "lo", "up")
        ip("-n", host, "link", "set", "eth0", "up")
        ip("netns", "exec", host, "sh", "-c", f"echo {RETRIES} > /proc/sys/net/ipv4/tcp_retries2")

    def cut(self, i, cut=True):
        ip("-n", self.switch, "link", "set", f"port{i}", "down" if cut else "up")

    def processes(self):
        """All that run on the hosts, the launcher's among them."""
        return [pid for name in self.made for pid in subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True,
                                                                    text=True).stdout.split()]

    def command(self, processes, *words):
        """One process to a host, in turns."""
        hosts = ",".join(f"10.77.0.{i % self.count + 1}" for i in range(processes))
        launcher = self.prefix + str(self.count)
        return ["ip", "netns", "exec", launcher, "unshare", "--uts", "sh", "-c", f"hostname {launcher}; exec \"$@\"", "sh",
                "mpirun.openmpi", "--mca", "plm_rsh_agent", self.agent, *OPTIONS, "-host", hosts, "-n", str(processes), *words]

    def remove(self):
        for pid in self.processes():
            os.kill(int(pid), signal.SIGKILL)
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self.made = []
