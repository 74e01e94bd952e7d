"""Who may reach a team's database: where a password comes from, and connections that are encrypted and verified."""
import os
import shutil
import socket
import subprocess
import unittest

import postgresql
from program import Case, PROGRAM, SMALL

BUILD = os.environ["TD_BUILD"]
SECRET = "s3/cr@t"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@unittest.skipUnless(postgresql.is_there(BUILD) and shutil.which("openssl"), "no PostgreSQL server, or built without libpq, or no openssl")
class Access(Case):
    """One server whose TCP connections must be encrypted and have a password."""
    @classmethod
    def setUpClass(cls):
        cls.server = postgresql.Server()
        cls.addClassCleanup(cls.server.close)
        cls.port = free_port()
        cls.server.sql(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'; GRANT ALL ON DATABASE runs TO guarded")
        cls.server.stop("fast")
        for name in ("server", "other"):
            subprocess.run(["openssl", "req", "-new", "-x509", "-days", "3650", "-nodes", "-subj", "/CN=localhost", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:prime256v1", "-out", f"{name}.crt", "-keyout", f"{name}.key"],
                           cwd=cls.server.folder, check=True, stderr=subprocess.DEVNULL)
        for name in ("server.crt", "server.key"):
            shutil.copy(os.path.join(cls.server.folder, name), cls.server.data)
            shutil.chown(os.path.join(cls.server.data, name), *([os.stat(cls.server.data).st_uid] * 2))
            os.chmod(os.path.join(cls.server.data, name), 0o600)
        with open(os.path.join(cls.server.data, "pg_hba.conf"), "w", encoding="utf-8") as file:
            file.write("local all team trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        with open(os.path.join(cls.server.data, "postgresql.auto.conf"), "a", encoding="utf-8") as file:
            file.write("ssl = on\n")
        cls.server.options = f"-c listen_addresses=127.0.0.1 -p {cls.port}"
        cls.server.port = cls.port
        cls.server.start()

    def setUp(self):
        super().setUp()
        self.run_program("train", self.write("small.yaml", SMALL.replace("epochs: 4", "epochs: 1") + "record:\n  - {what: loss, every: 1 step}\n"))

    def url(self, user="guarded", more="sslmode=verify-full"):
        root = os.path.join(self.server.folder, "server.crt")
        return f"postgresql://{user}@localhost:{self.port}/runs?{more}&sslrootcert={root}"

    def ask(self, url, **environment):
        clean = {key: value for key, value in self.environment().items() if not key.startswith("PG")}
        done = subprocess.run([PROGRAM, "push", "runs/small", url], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=dict(clean, HOME=self.folder, **environment))
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        self.assertNotIn("s3%2Fcr%40t", done.stdout + done.stderr)
        return done

    def test_where_a_password_comes_from(self):
        with open(self.path("pgpass"), "w", encoding="utf-8") as file:
            file.write(f"localhost:{self.port}:runs:guarded:{SECRET}\n")
        os.chmod(self.path("pgpass"), 0o600)
        with open(self.path("services"), "w", encoding="utf-8") as file:
            file.write(f"[team]\nhost=localhost\nport={self.port}\ndbname=runs\nuser=guarded\npassword={SECRET}\nsslmode=require\n")
        for url, environment in ((self.url("guarded:s3%2Fcr%40t"), {}), (self.url(), {"PGPASSWORD": SECRET}), (self.url(), {"PGPASSFILE": self.path("pgpass")}),
                                 ("postgresql:///?service=team", {"PGSERVICEFILE": self.path("services")})):
            done = self.ask(url, **environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("#small", done.stdout)
        for url in (self.url(), self.url("guarded:wrong"), self.url("nobody:s3%2Fcr%40t")):
            done = self.ask(url)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "no password supplied|password authentication failed")

    def test_connections_are_encrypted_and_verified_as_the_url_asks(self):
        user = "guarded:s3%2Fcr%40t"
        for more in ("sslmode=require", "sslmode=verify-ca", "sslmode=verify-full"):
            self.assertEqual(self.ask(self.url(user, more)).returncode, 0)
        for url, reason in ((self.url(user, "sslmode=disable"), "no encryption"),
                            (self.url(user).replace("server.crt", "other.crt"), "certificate verify failed"),
                            (self.url(user).replace("@localhost", "@127.0.0.1"), "does not match host name")):
            done = self.ask(url)
            self.assertEqual(done.returncode, 1)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
