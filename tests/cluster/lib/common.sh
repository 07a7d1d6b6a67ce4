# shellcheck shell=bash
# Names and addresses of one cluster, and its components as processes.

KUBERNETES=v1.37.2

STATE=${MAINSTAY_CLUSTER_DIR:-/var/tmp/mainstay-cluster}
SLOT=${MAINSTAY_CLUSTER_SLOT:-0}
[[ $SLOT =~ ^[0-9]$ ]] || { echo "cluster: MAINSTAY_CLUSTER_SLOT is a digit, not '$SLOT'" >&2; exit 2; }

BIN=$STATE/bin/$KUBERNETES
RUN=$STATE/cluster-$SLOT             # everything that `down` removes
PKI=$RUN/pki
LOG=$RUN/log
SOCK=/run/mainstay-cluster-$SLOT     # containerd's sockets: a path to a socket has 107 characters at most
CGROUP=mainstay-cluster-$SLOT
CNI_NAME=mainstay-$SLOT

SUBNET=10.$((64 + SLOT))             # SUBNET.0.0/24 is the nodes' network, SUBNET.N.0/24 has the pods of node N
CONTROL_IP=$SUBNET.0.1
HOST_IP=$SUBNET.0.254
SERVICE_RANGE=10.96.0.0/16           # inside the nodes only, so the same in every slot
SERVER=https://$CONTROL_IP:6443
HOST_LINK=mainstay$SLOT              # the machine's own port on the nodes' network
NET_PREFIX=mainstay-$SLOT-
CONTROL_NET=${NET_PREFIX}control

PACKAGES=(containerd runc iproute2 nftables iptables conntrack containernetworking-plugins
  busybox-static debootstrap openssl util-linux python3 procps)

say() { echo "cluster: $*" >&2; }
die() { say "$*"; exit 1; }

node_ip() { echo "$SUBNET.0.$((10 + $1))"; }
node_net() { echo "${NET_PREFIX}node-$1"; }
nodes() { find "$RUN" -maxdepth 1 -name 'node-*' -printf '%f\n' 2>/dev/null | sed 's/^node-//' | sort -n; }
in_net() { local net=$1; shift; nsenter --net="/run/netns/$net" "$@"; }
node_ctr() { local n=$1; shift; ctr -a "$SOCK/$n.sock" -n k8s.io "$@"; }
kube() { "$BIN/kubectl" --kubeconfig "$RUN/admin.kubeconfig" "$@"; }

require_root() { [ "$(id -u)" = 0 ] || die "needs root: it makes network namespaces and runs containers"; }

require_tools() {
  local tool missing=()
  for tool in containerd runc ctr ip nft iptables conntrack debootstrap openssl nsenter python3; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [ -x /usr/lib/cni/bridge ] || missing+=(/usr/lib/cni/bridge)
  [ -x /bin/busybox ] || missing+=(/bin/busybox)
  [ ${#missing[@]} = 0 ] || die "missing: ${missing[*]}; on Debian: apt-get install ${PACKAGES[*]}"
}

# ---- processes ---------------------------------------------------------------

components() { find "$RUN" -maxdepth 1 -name '*.cmd' -printf '%f\n' 2>/dev/null | sed 's/\.cmd$//' | sort; }
known() { [ -f "$RUN/$1.cmd" ] || die "no component '$1'; there are: $(components | tr '\n' ' ')"; }
pid_of() { cat "$RUN/$1.pid"; }

# Not gone and not a zombie.
running() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }

# The process of the pid file runs and is ours: its number may be another's after a reboot.
alive() {
  local pid
  pid=$(pid_of "$1" 2>/dev/null) || return 1
  running "$pid" && tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null | grep -qF "$RUN/"
}

# spawn NAME COMMAND...: start a component and keep its command, so that `start` can repeat it.
spawn() {
  local name=$1
  shift
  printf '%q ' "$@" > "$RUN/$name.cmd"
  start "$name"
}

start() {
  alive "$1" && return
  setsid bash -c "exec $(cat "$RUN/$1.cmd")" >> "$LOG/$1" 2>&1 < /dev/null &
  echo $! > "$RUN/$1.pid"
}

stop() {
  alive "$1" || return 0
  local pid
  pid=$(pid_of "$1")
  kill "$pid" 2>/dev/null || true
  kill -CONT "$pid" 2>/dev/null || true
  for _ in $(seq 100); do
    running "$pid" || return 0
    sleep 0.05
  done
  kill -9 "$pid" 2>/dev/null || true
}

send() {
  known "$2"
  alive "$2" || die "$2 does not run"
  kill -"$1" "$(pid_of "$2")"
}

wait_for() {
  local what=$1
  shift
  for _ in $(seq 240); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.25
  done
  die "$what did not come up within a minute; its log: cluster logs $what (or: kubectl describe $what)"
}

# ---- containers --------------------------------------------------------------

cgroup_roots() {
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    echo "/sys/fs/cgroup"
  else
    find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d
  fi
}

# make_cgroups N: the group that kubelet N puts its pods in, with every controller.
make_cgroups() {
  local root group file
  for root in $(cgroup_roots); do
    mkdir -p "$root/$CGROUP/node-$1" 2>/dev/null || continue
    for group in "$root/$CGROUP" "$root/$CGROUP/node-$1"; do
      if [ -f "$root/cgroup.subtree_control" ]; then
        sed 's/\(^\| \)\([a-z]\)/\1+\2/g' "$root/cgroup.controllers" > "$(dirname "$group")/cgroup.subtree_control" || true
      fi
      # A new version 1 cpuset has no cores and no memory, and takes no process.
      for file in cpuset.cpus cpuset.mems; do
        if [ "$(basename "$root")" = cpuset ]; then cat "$root/$file" > "$group/$file"; fi
      done
    done
  done
}

pod_processes() {
  local root
  for root in $(cgroup_roots); do
    [ -d "$root/$CGROUP" ] && find "$root/$CGROUP" -name cgroup.procs -exec cat {} +
  done | sort -u
}

shims() { pgrep -f "containerd-shim.* -address $SOCK/" || true; }

# What containerd, CNI and the kubelet keep in places that can't be configured.
remove_leftovers() {
  local socket
  find "$SOCK" -name address -exec cat {} + 2>/dev/null | sed 's,unix://,\n,g' | grep '^/run/containerd/s/' |
    while read -r socket; do rm -f "$socket"; done || true
  rm -f "/var/lib/cni/results/$CNI_NAME"-*
  find /var/log/containers -lname "$RUN/*" -delete 2>/dev/null || true
}

remove_cgroups() {
  local root
  for _ in $(seq 40); do
    [ -z "$(pod_processes)" ] && break
    sleep 0.05
  done
  for root in $(cgroup_roots); do
    [ -d "$root/$CGROUP" ] && find "$root/$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null
  done
  true
}
