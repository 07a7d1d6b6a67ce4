"""A kube-apiserver with its etcd alone, for a bench: on loopback, in a temporary folder."""

import os
import subprocess
import tempfile
from pathlib import Path

from measure import Api, free_port, wait_until


def programs():
    """A folder with etcd and kube-apiserver: KUBEBUILDER_ASSETS, or what tests/cluster built."""
    if "KUBEBUILDER_ASSETS" in os.environ:
        return Path(os.environ["KUBEBUILDER_ASSETS"])
    state = Path(os.environ.get("MAINSTAY_CLUSTER_DIR", "/var/tmp/mainstay-cluster"))
    found = sorted(folder for folder in state.glob("bin/*") if (folder / "kube-apiserver").exists())
    if not found:
        raise SystemExit("no kube-apiserver: set KUBECONFIG or KUBEBUILDER_ASSETS, or run tests/cluster/cluster build")
    return found[-1]


class ControlPlane:
    """Runs while it is used as a context; `kubeconfig` is its administrator's."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mainstay-peers-")
        at = Path(self.folder.name)
        client, peer, secure = free_port(), free_port(), free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", at / "server.key",
                        "-out", at / "server.crt", "-subj", "/CN=peers", "-days", "2",
                        "-addext", "subjectAltName=IP:127.0.0.1",
                        "-addext", "basicConstraints=critical,CA:FALSE"], check=True, **quiet)
        subprocess.run(["openssl", "genrsa", "-out", at / "account.key", "2048"], check=True, **quiet)
        (at / "tokens.csv").write_text('admin-token,admin,admin,"system:masters"\n')
        self.kubeconfig = at / "kubeconfig"
        self.kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {"
            f"server: 'https://127.0.0.1:{secure}', certificate-authority: {at}/server.crt}}}}], "
            "users: [{name: a, user: {token: admin-token}}], contexts: [{name: a, context: {cluster: a, user: a}}]}")
        self.children = []

        def start(*command):
            log = open(at / f"{command[0]}.log", "wb")
            command = [str(programs() / command[0]), *command[1:]]
            self.children.append(subprocess.Popen(command, cwd=at, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

        start("etcd", f"--data-dir={at}/data", f"--listen-client-urls=http://127.0.0.1:{client}",
              f"--advertise-client-urls=http://127.0.0.1:{client}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
              f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
              f"--initial-cluster=default=http://127.0.0.1:{peer}", "--unsafe-no-fsync", "--log-level=warn",
              "--quota-backend-bytes=8589934592")
        start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{client}", "--bind-address=127.0.0.1",
              "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--secure-port={secure}",
              f"--tls-cert-file={at}/server.crt", f"--tls-private-key-file={at}/server.key",
              "--service-account-issuer=https://kubernetes.default.svc",
              f"--service-account-key-file={at}/account.key", f"--service-account-signing-key-file={at}/account.key",
              f"--token-auth-file={at}/tokens.csv", "--authorization-mode=RBAC",
              "--service-cluster-ip-range=10.96.0.0/16")
        try:
            wait_until("kube-apiserver", self.ready, 120, 0.5)
        except BaseException:
            self.__exit__()
            raise
        return self

    def ready(self):
        try:
            api = Api(str(self.kubeconfig))
            return api.call("GET", "/readyz") and api.call("GET", "/api/v1/namespaces/default")
        except (OSError, RuntimeError):
            return False

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:  # it waits for watches to end
                child.kill()
                child.wait()
        self.folder.cleanup()
