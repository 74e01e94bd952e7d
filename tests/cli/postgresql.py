"""A PostgreSQL server of a test's own, on a socket in a temporary folder. Debian's package, of whatever version is installed,
or the programs in the folder TD_POSTGRESQL; the server does not run as root, so a root starts it as another user."""
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time

PROGRAMS = os.environ.get("TD_POSTGRESQL") or (sorted(glob.glob("/usr/lib/postgresql/*/bin"),
                                                      key=lambda path: int(path.split("/")[4])) or [None])[-1]


def is_there(build):
    """Whether this machine has a server and the build a plugin."""
    return bool(PROGRAMS) and os.path.exists(os.path.join(build, "libtapedeck-postgresql.so"))


# Without what the tests preload into Python.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "ASAN_OPTIONS")}


class Server:
    def __init__(self, options=""):
        self.folder = tempfile.mkdtemp(prefix="tapedeck-pg-")
        self.data = os.path.join(self.folder, "data")
        self.options = options
        self.port = 5432
        self.as_user = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                            "--clear-groups"]
        os.chmod(self.folder, 0o755)
        self._run("initdb", "-D", self.data, "-U", "team", "--auth=trust", "-E", "UTF8", "--no-sync",
                  "--locale=C")
        self.start()
        self.sql("CREATE DATABASE runs", database="postgres")

    def _run(self, program, *arguments, check=True):
        return subprocess.run([*self.as_user, os.path.join(PROGRAMS, program), *arguments],
                              check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, cwd="/", env=ENVIRONMENT)

    def start(self):
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=40"
        self._run("pg_ctl", "-D", self.data, "-l", os.path.join(self.folder, "log"), "-w", "-o",
                  f"{options} {self.options}", "start")

    def stop(self, mode="immediate"):
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop", check=False)

    def url(self, user="team", database="runs"):
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def sql(self, text, user="team", database="runs"):
        """The answer's rows, a list of texts each."""
        done = subprocess.run([os.path.join(PROGRAMS, "psql"), "-h", self.folder, "-p", str(self.port), "-U", user, "-d",
                               database, "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", text],
                              capture_output=True, text=True, check=False, env=ENVIRONMENT)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def wait_for(self, text, expected, seconds=30):
        """Until a query answers this."""
        until = time.monotonic() + seconds
        while (answer := self.sql(text)) != expected:
            if time.monotonic() > until:
                raise AssertionError(f"{text}: {answer}, not {expected}")
            time.sleep(0.05)

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
