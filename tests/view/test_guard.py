"""Nobody gets in: the viewer as an attacker meets it, over raw sockets; and what many clients at once do to it."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from viewer import BUILD, Folder, PROGRAM, Viewer, grow, record  # noqa: E402


def exchange(port, data, seconds=20):
    """All that is answered to these bytes, until the other side closes or says nothing more."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        answer = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
        except OSError:  # closed on us, or silent
            pass
        return answer


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


class Guard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        record(cls.folder / "run", "hostile")
        with open(cls.folder / "secret", "w", encoding="utf-8") as file:
            file.write("SECRET")
        cls.viewer = Viewer(cls.folder.path)
        cls.id = cls.viewer.first_run()

    @classmethod
    def tearDownClass(cls):
        status = cls.viewer.close()
        cls.folder.remove()
        assert status == 0, f"the viewer ended with {status}"

    def ask(self, target, host=None, method="GET", extra="", cookie=None):
        host = f"127.0.0.1:{self.viewer.port}" if host is None else host
        cookie = self.viewer.cookie if cookie is None else cookie
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{'Cookie: ' + cookie if cookie else 'X: y'}\r\nConnection: close\r\n{extra}\r\n"
        return exchange(self.viewer.port, head.encode("latin-1"))

    def test_without_the_token_there_is_nothing_but_403(self):
        for target in ("/", "/app.js", "/app.css", "/favicon.ico", "/api/runs", f"/api/run?run={self.id}", "/api/follow", "/nothing", "/?token=", "/?token=x",
                       f"/?token={self.viewer.token[:-1]}", f"/?token={self.viewer.token}x", f"/?Token={self.viewer.token}"):
            answer = self.ask(target, cookie="")
            self.assertEqual(status_of(answer), 403, target)
            self.assertNotIn(b"Set-Cookie", answer)
            self.assertNotIn(self.viewer.token.encode(), answer)
        for cookie in (f"tapedeck-{self.viewer.port}=", f"tapedeck-{self.viewer.port}=x", f"tapedeck-1={self.viewer.token}", f"x={self.viewer.token}", "a=b; c"):
            self.assertEqual(status_of(self.ask("/api/runs", cookie=cookie)), 403, cookie)
        self.assertEqual(status_of(self.ask("/api/runs", cookie=f"a=b; {self.viewer.cookie}; c=d")), 200)

    def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_have(self):
        answer = self.ask(f"/?token={self.viewer.token}", cookie="")
        self.assertEqual(status_of(answer), 200)
        self.assertIn(f"Set-Cookie: {self.viewer.cookie}; Path=/; HttpOnly; SameSite=Strict".encode(), answer)

    def test_other_hosts_and_origins_are_refused(self):
        port = self.viewer.port
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", "", f"localhost.evil.example:{port}", f"127.0.0.1:{port}.evil", f"10.0.0.1:{port}", f"[::2]:{port}"):
            self.assertIn(status_of(self.ask("/api/runs", host=host)), (400, 403), host)
        for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
            self.assertEqual(status_of(self.ask("/api/runs", host=host)), 200, host)
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}.evil", "file://"):
            self.assertEqual(status_of(self.ask("/api/runs", extra=f"Origin: {origin}\r\n")), 403, origin)
        self.assertEqual(status_of(self.ask("/api/runs", extra=f"Origin: http://127.0.0.1:{port}\r\n")), 200)
        answer = exchange(port, f"GET /api/runs HTTP/1.1\r\nCookie: {self.viewer.cookie}\r\nConnection: close\r\n\r\n".encode())
        self.assertIn(status_of(answer), (400, 403), "without a Host")

    def test_it_only_shows(self):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            answer = self.ask("/api/runs", method=method, extra="Content-Length: 0\r\n")
            self.assertIn(status_of(answer), (400, 405, 501), method)
        self.assertEqual(self.ask("/api/runs", method="HEAD").split(b"\r\n\r\n", 1)[1], b"")

    def test_headers_keep_the_page_to_itself(self):
        answer = self.ask("/")
        for header in (b"Content-Security-Policy: default-src 'self'", b"X-Content-Type-Options: nosniff", b"Referrer-Policy: no-referrer", b"Cache-Control: no-store",
                       b"Cross-Origin-Resource-Policy: same-origin", b"frame-ancestors 'none'"):
            self.assertIn(header, answer)
        self.assertNotIn(b"Access-Control-Allow", answer)

    def test_no_path_leads_to_a_file(self):
        for target in ("/../secret", "/%2e%2e/secret", "/secret", "/run/run.db", "//etc/passwd", "/api/../secret", f"/api/run?run=../{self.id}", "/api/run?run=..%2Fsecret", "/api/image?run=secret",
                       f"/api/files?run={self.id}&path=../secret", "/api/runs%00/x", "http://127.0.0.1/secret", "/index.html", "/app.js/../../secret"):
            answer = self.ask(target)
            self.assertNotIn(b"SECRET", answer, target)
            self.assertNotIn(b"root:", answer, target)
            self.assertIn(status_of(answer), (200, 204, 400, 404), target)

    def test_absurd_parameters_have_bounds(self):
        run = self.id
        for target in (f"/api/series?run={run}&signals=1&points=99999999999999999999", f"/api/series?run={run}&signals={'1,' * 3000}", f"/api/series?run={run}&signals=-1,x,,9999999999999999999999",
                       f"/api/heat?run={run}&signals=5&stat=norm&from=-9223372036854775808&to=9223372036854775807&columns=2000000000", f"/api/heat?run={run}&signals=5&stat=norm&from=9&to=1&columns=0",
                       f"/api/heat?run={run}&signals=5&stat=norm'--&from=1&to=9", f"/api/histograms?run={run}&signal=5&most=1000000000&bins=7&from=99&to=-99",
                       f"/api/tensor?run={run}&signal=5&step=nan&at={':,' * 2000}", f"/api/stats?run={run}&signals={'5,' * 3000}&step=1", f"/api/units?run={run}&signal=1", f"/api/examples?run={run}&signal=1",
                       f"/api/steps?run={run}&points=-5", f"/api/compare?run={run}&other={run}", "/api/run?run=", "/api/run", "/api/run?" + "&".join(f"a{i}=b" for i in range(200)), f"/api/run?run={'x' * 20000}"):
            answer = self.ask(target)
            self.assertIn(status_of(answer), (200, 204, 400, 404), target[:100])
            self.assertLess(len(answer), 8 << 20)
        for target in ("/api/run?run=" + "x" * 200000, "/api/run?" + "&".join(f"a{i}=b" for i in range(20000))):
            self.assertIn(status_of(self.ask(target)), (0, 400, 404, 413, 414, 431))
        self.assertEqual(status_of(self.ask("/api/runs")), 200)

    def test_bytes_that_are_no_request_do_no_harm(self):
        for data in (b"", b"\0" * 4096, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + os.urandom(500), b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n",
                     b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nffffffffffffffff\r\n", os.urandom(65536)):
            self.assertIn(status_of(exchange(self.viewer.port, data, 5)), (0, 400, 403, 405, 411, 413, 431, 500, 501, 505))
        self.assertEqual(status_of(self.ask("/api/runs")), 200)

    def test_two_hundred_idle_connections_do_no_harm(self):
        idle = [socket.create_connection(("127.0.0.1", self.viewer.port)) for _ in range(200)]
        try:
            for i, connection in enumerate(idle):
                connection.sendall(b"GET / HTT" if i % 2 else b"")
            self.assertEqual(status_of(self.ask("/api/runs")), 200)
            self.assertEqual(status_of(self.ask(f"/api/series?run={self.id}&signals=1")), 200)
        finally:
            for connection in idle:
                connection.close()

    def test_several_hosts_are_a_bad_request(self):
        host = f"127.0.0.1:{self.viewer.port}"
        self.assertEqual(status_of(self.ask("/api/runs", extra=f"Host: {host}\r\n")), 400)
        self.assertEqual(status_of(self.ask("/api/runs", extra="HOST: evil.example\r\n")), 400)

    def test_strangers_that_send_slowly_do_not_keep_others_out(self):
        slow = []
        try:
            for _ in range(900):
                slow.append(socket.create_connection(("127.0.0.1", self.viewer.port)))
            open_ones, began = list(slow), time.monotonic()
            while open_ones and time.monotonic() - began < 40:
                for connection in list(open_ones):
                    try:
                        connection.sendall(b"x")  # never a whole request
                        connection.settimeout(0)
                        if connection.recv(100) == b"":
                            open_ones.remove(connection)
                    except BlockingIOError:
                        pass
                    except OSError:
                        open_ones.remove(connection)
                self.assertEqual(status_of(self.ask("/api/runs")), 200)
                time.sleep(1)
            self.assertEqual(open_ones, [])
        finally:
            for connection in slow:
                connection.close()

    def test_it_listens_at_loopback_only(self):
        port = f":{self.viewer.port:04X}"
        with open("/proc/net/tcp", encoding="ascii") as file:
            listening = [line.split()[1] for line in file if line.split()[3] == "0A" and line.split()[1].endswith(port)]
        self.assertEqual(listening, [f"0100007F{port}"])

    def test_sixty_four_clients_follow_a_run(self):
        process = grow(self.folder / "live")
        heard = [0] * 64

        def follow(i):
            connection = http.client.HTTPConnection("127.0.0.1", self.viewer.port, timeout=60)
            connection.request("GET", "/api/follow", headers={"Cookie": self.viewer.cookie})
            answer = connection.getresponse()
            while heard[i] < 3:
                line = answer.readline()
                if not line:
                    return
                heard[i] += b'"step":' in line and b'"signals":[[' in line
            connection.close()

        try:
            clients = [threading.Thread(target=follow, args=(i,)) for i in range(64)]
            for client in clients:
                client.start()
            for client in clients:
                client.join(60)
            self.assertEqual(heard, [3] * 64)
        finally:
            process.kill()
            process.wait()

    def test_a_run_that_others_ask_for_stays_in_the_list_with_its_settings(self):
        """A request that is being answered has the run: the list waits for it, and does not say that the run is being read."""
        run, done = self.viewer.first_run(), threading.Event()

        def ask():
            while not done.is_set():
                self.viewer.get(f"/api/run?run={run}")
        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        try:
            for _ in range(60):
                listed = next(each for each in json.loads(self.viewer.get("/api/runs")[2])["runs"] if each["id"] == run)
                self.assertFalse(listed["loading"])
                self.assertIn(run, json.loads(self.viewer.get("/api/settings")[2])["runs"])
        finally:
            done.set()
            for asker in askers:
                asker.join()

    def test_damaged_runs_are_listed_and_harm_nobody(self):
        folder = Folder()
        record(folder / "good", "hostile")
        with open(os.path.join(folder / "good", "run.db"), "rb") as file:
            half = file.read()[:9000]
        for name, data in (("empty", b""), ("noise", os.urandom(50000)), ("half", half)):
            os.mkdir(folder / name)
            with open(os.path.join(folder / name, "run.db"), "wb") as file:
                file.write(data)
        os.makedirs(os.path.join(folder / "folder", "run.db"))
        os.mkdir(folder / "pipe")
        os.mkfifo(os.path.join(folder / "pipe", "run.db"))
        os.mkdir(folder / "torn")
        with open(os.path.join(folder / "torn", "events.out.tfevents.1.x.1.0"), "wb") as file:
            file.write(os.urandom(5000))
        os.symlink(folder.path, folder / "loop")
        viewer = Viewer(folder.path)
        try:
            for _ in range(400):
                runs = json.loads(viewer.get("/api/runs")[2])["runs"]
                if runs and not any(run["loading"] for run in runs):
                    break
                time.sleep(0.05)
            self.assertFalse(any(run["loading"] for run in runs), runs)
            self.assertIn("good", [run["name"] for run in runs])
            self.assertFalse([run["name"] for run in runs if "loop" in run["name"]])
            for run in runs:
                for route in ("run?", "steps?", "series?signals=1&", "heat?signals=5&stat=norm&", "histograms?signal=5&", "tensor?signal=5&", "files?", "batch?"):
                    status = 503
                    while status == 503:  # it is being read again
                        status, _, body = viewer.get(f"/api/{route}run={run['id']}")
                    self.assertIn(status, (200, 204, 400, 404, 500), f"{run['name']} {route}: {body[:200]}")
        finally:
            self.assertEqual(viewer.close(), 0)
            folder.remove()

    def test_names_are_valid_json_whatever_they_are(self):
        status, _, body = self.viewer.get(f"/api/run?run={self.id}")
        names = [signal_["name"] for signal_ in json.loads(body)["signals"]]
        self.assertEqual(status, 200)
        self.assertIn("<script>window.pwned=1</script>", names)
        self.assertNotIn(b"<script", body)
        self.assertTrue(any(len(name) == 10000 for name in names))


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)

    def test_the_first_line_is_the_address_and_ctrl_c_ends_it(self):
        viewer = Viewer(self.folder.path)
        self.assertRegex(viewer.url, r"^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{40}$")
        self.assertEqual(viewer.get("/api/runs")[0], 200)
        follower = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=60)
        follower.request("GET", "/api/follow", headers={"Cookie": viewer.cookie})
        follower.getresponse()
        self.assertEqual(viewer.close(), 0)
        follower.close()

    def test_the_token_is_in_no_program_s_arguments(self):
        os.mkdir(self.folder / "bin")
        opener = os.path.join(self.folder / "bin", "xdg-open")
        with open(opener, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "$1" > {self.folder / "opened"}; stat -c %a "$1" >> {self.folder / "opened"}; cat "$1" >> {self.folder / "opened"}; touch {self.folder / "done"}\n')
        os.chmod(opener, 0o755)
        environment = {**os.environ, "PATH": self.folder / "bin" + ":" + os.environ["PATH"], "DISPLAY": ":0", "TMPDIR": self.folder.path, "XDG_RUNTIME_DIR": ""}
        process = subprocess.Popen([PROGRAM, "view", self.folder.path, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment)
        url = process.stdout.readline().strip()
        for _ in range(200):
            if os.path.exists(self.folder / "done"):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        with open(self.folder / "opened", encoding="utf-8") as file:
            path, mode, page = file.read().split("\n", 2)
        self.assertNotIn("token", path)
        self.assertEqual(mode, "600")
        self.assertIn(url, page)
        self.assertFalse(os.path.exists(path))

    def test_a_token_that_is_kept_is_valid_after_a_restart(self):
        kept = self.folder / "token"
        urls = []
        for _ in range(2):
            viewer = Viewer(self.folder.path, "--port", "0", "--token-file", kept)
            urls.append(viewer.url.split("=")[1])
            self.assertEqual(viewer.get("/api/runs")[0], 200)
            viewer.close()
        self.assertEqual(urls[0], urls[1])
        self.assertEqual(os.stat(kept).st_mode & 0o777, 0o600)
        for mode, text in ((0o644, urls[0]), (0o600, "secret")):
            with open(kept, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(kept, mode)
            done = subprocess.run([PROGRAM, "view", self.folder.path, "--no-open", "--token-file", kept], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("token", done.stderr)

    def test_port_zero_is_any_free_port(self):
        viewers = [Viewer(self.folder.path, "--port", "0") for _ in range(2)]
        ports = {viewer.port for viewer in viewers}
        for viewer in viewers:
            viewer.close()
        self.assertEqual(len(ports), 2)
        self.assertNotIn(6464, ports)

    def test_a_port_is_taken_as_asked_or_refused(self):
        first = Viewer(self.folder.path)
        second = Viewer(self.folder.path)
        self.assertNotEqual(first.port, second.port)
        done = subprocess.run([PROGRAM, "view", self.folder.path, "--no-open", "--port", str(first.port)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"port {first.port}", done.stderr)
        self.assertEqual((first.close(), second.close()), (0, 0))

    def test_wrong_usage(self):
        for arguments, status, said in ((["view", self.folder / "nowhere"], 1, "no folder"), (["view", "--port", "x"], 2, "--port"), (["view", "--port", "70000"], 2, "65535"), (["view", "a", "b"], 2, "one FOLDER"),
                                        (["view", self.folder.path, "--host", "no such host"], 1, "address"), (["report"], 2, "RUN"), (["report", self.folder / "nowhere", "-o", self.folder / "r.html"], 1, "nowhere")):
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
            self.assertIn(said, done.stderr)
        self.assertEqual(os.listdir(self.folder.path), [])

    def test_without_the_engine_the_package_is_named(self):
        with tempfile.TemporaryDirectory() as alone:
            for name in os.listdir(BUILD):
                if name.startswith("libtapedeck.so"):
                    shutil.copy(os.path.join(BUILD, name), alone)
            done = subprocess.run([PROGRAM, "view", self.folder.path], capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ, LD_LIBRARY_PATH=alone))
        self.assertEqual(done.returncode, 1)
        self.assertIn("libmicrohttpd", done.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main()
