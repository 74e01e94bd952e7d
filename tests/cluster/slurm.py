"""A Slurm cluster of one node in a folder of its own: munged, slurmctld and slurmd, as the user who runs the tests."""
import os
import pwd
import shutil
import socket
import subprocess
import time

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES State=UP
"""
# slurmd 22.05 does not start without a plugin for control groups, even where it is to use none of them.
GROUPS = {True: "CgroupPlugin=cgroup/v1\n", False: "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"}


def is_installed():
    return all(shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") for name in ("munged", "slurmctld", "slurmd", "sbatch"))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = dict(environment, SLURM_CONF=f"{folder}/slurm.conf", PATH=os.environ["PATH"] + ":/usr/sbin")
        for name in ("munge", "state", "spool"):
            os.makedirs(os.path.join(folder, name), mode=0o700)
        with open(f"{folder}/munge/key", "wb") as file:
            os.fchmod(file.fileno(), 0o400)
            file.write(os.urandom(1024))
        values = {"host": socket.gethostname().split(".")[0], "user": pwd.getpwuid(os.getuid()).pw_name,
                  "folder": folder, "ports": free_ports(2)}
        with open(f"{folder}/slurm.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(**values))
        with open(f"{folder}/cgroup.conf", "w", encoding="utf-8") as file:
            file.write(GROUPS[not os.path.exists("/sys/fs/cgroup/cgroup.controllers")])
        self.daemons = []
        try:
            self.start("munged", "--foreground", "--force", *(f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")),
                       f"--socket={folder}/munge/socket")
            self.wait(lambda: os.path.exists(f"{folder}/munge/socket"))
            self.start("slurmctld", "-D", "-c")
            self.start("slurmd", "-D")
            self.wait(lambda: self.run("sinfo", "-h", "-o", "%T", check=False).strip() == "idle")
        except BaseException:
            self.stop()
            raise

    def start(self, *words):
        self.daemons.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL, start_new_session=True))

    def log(self):
        text = ""
        for name in ("munge/log", "slurmctld.log", "slurmd.log"):
            if os.path.exists(f"{self.folder}/{name}"):
                with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
                    text += f"{name}:\n" + file.read()[-2000:]
        return text

    def wait(self, is_there, seconds=60):
        began = time.monotonic()
        while not is_there():
            for daemon in self.daemons:
                assert daemon.poll() is None, self.log()
            assert time.monotonic() - began < seconds, self.log()
            time.sleep(0.2)

    def run(self, *words, cwd=None, check=True):
        done = subprocess.run(words, cwd=cwd, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr, self.log())
        return done.stdout

    def submit(self, script, cwd, *options):
        """The number of the job."""
        return self.run("sbatch", "--parsable", *options, script, cwd=cwd).strip()

    def state(self, job):
        """State and exit status of the script, as scontrol has them."""
        found = dict(word.split("=", 1) for word in self.run("scontrol", "-o", "show", "job", job).split() if "=" in word)
        return found["JobState"], found["ExitCode"]

    def finish(self, job, seconds=120):
        self.wait(lambda: self.state(job)[0] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"), seconds)
        return self.state(job)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []
