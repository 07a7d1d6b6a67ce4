"""What both benches' drivers share: processes that are looked at from outside, alike for all systems."""

import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
THREADS = 2


def target():
    """Where cargo puts what it builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def build(what):
    """Builds `what` (of `operators`, `micro`) of all systems; returns nothing."""
    ours = {"operators": ["--example", "trivial-operator"], "micro": ["--bench", "peers"]}[what]
    output = subprocess.run(
        ["cargo", "build", "--release", "--message-format=json-render-diagnostics", *ours],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            found[message["target"]["name"]] = message["executable"]
    subprocess.run(["cargo", "build", "--release"], cwd=HERE / "kube-rs", check=True,
                   env={**os.environ, "CARGO_TARGET_DIR": str(target() / "peers")})
    go = target() / "peers" / "go"
    go.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", f"{go}/", "./..."], cwd=HERE, check=True)
    found["kube-rs"] = target() / "peers" / "release"
    found["go"] = go
    return found


def environment():
    """Same threads for all: GOMAXPROCS for Go; the Rust programs have as many workers built in."""
    return {**os.environ, "GOMAXPROCS": str(THREADS)}


class Process:
    """A running program: its CPU time and memory as the kernel counts them."""

    def __init__(self, command, env=None, **options):
        self.child = subprocess.Popen([str(word) for word in command],
                                      env={**environment(), **(env or {})}, **options)
        self.pid = self.child.pid

    def cpu(self):
        """Seconds of CPU so far, all threads: the clock that clock_getcpuclockid(3) gives."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def status(self, field):
        """A field of /proc/PID/status that is in KiB, in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"process {self.pid} is gone")

    def resident(self):
        return self.status("VmRSS")

    def peak(self):
        return self.status("VmHWM")

    def reset_peak(self):
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Api:
    """A client of the server in a kubeconfig, for the driver's own part."""

    def __init__(self, kubeconfig):
        output = subprocess.run(["kubectl", "--kubeconfig", kubeconfig, "config", "view", "--raw",
                                 "--flatten", "--minify", "-o", "json"],
                                check=True, stdout=subprocess.PIPE).stdout
        config = json.loads(output)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server = cluster["server"]
        self.context = ssl.create_default_context()
        self.headers = {}
        self.folder = tempfile.TemporaryDirectory(prefix="mainstay-peers-")
        if "certificate-authority-data" in cluster:
            self.context.load_verify_locations(self.file("ca", cluster["certificate-authority-data"]))
        if "client-certificate-data" in user:
            self.context.load_cert_chain(self.file("crt", user["client-certificate-data"]),
                                         self.file("key", user["client-key-data"]))
        if "token" in user:
            self.headers["Authorization"] = "Bearer " + user["token"]

    def file(self, name, data):
        import base64
        path = Path(self.folder.name) / name
        path.touch(0o600)
        path.write_bytes(base64.b64decode(data))
        return path

    def connection(self):
        """A connection of one's own, for a thread."""
        import http.client
        from urllib.parse import urlparse
        url = urlparse(self.server)
        return http.client.HTTPSConnection(url.hostname, url.port, context=self.context, timeout=120)

    def call(self, method, path, body=None, content="application/json", connection=None):
        connection = connection or self.connection()
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {**self.headers, "Content-Type": content})
        response = connection.getresponse()
        text = response.read().decode()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:300]}")
        return text


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(what, condition, limit=600.0, pause=0.05):
    """Waits until `condition()`; returns what it returned."""
    until = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise RuntimeError(f"waited {limit:.0f} s in vain for {what}")
        time.sleep(pause)
