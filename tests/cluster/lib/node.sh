# shellcheck shell=bash
# Nodes: their namespaces, their programs, and cutting them off.

# node N: a network namespace with containerd, kubelet and kube-proxy
node() {
  local n=$1 net dir
  net=$(node_net "$n")
  dir=$RUN/node-$n
  mkdir -p "$dir/cni" "$SOCK"
  [ -e "/run/netns/$net" ] || plug "$n"
  runtime "$n" "$net" "$dir"
  make_cgroups "$n"
  kubelet "$n" "$net" "$dir"
  cat > "$dir/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $RUN/admin.kubeconfig}
mode: nftables
hostnameOverride: node-$n
conntrack: {maxPerCore: 0}
YAML
  spawn "proxy-$n" nsenter --net="/run/netns/$net" "$BIN/kube-proxy" --config="$dir/proxy.yaml"
}

# plug N: the node's cable to the switch, and everyone's way to its pods
plug() {
  local n=$1 net ip m
  net=$(node_net "$n")
  ip=$(node_ip "$n")
  ip netns add "$net"
  ip -n "$CONTROL_NET" link add "node-$n" type veth peer name eth0 netns "$net"
  ip -n "$CONTROL_NET" link set "node-$n" master nodes up
  ip -n "$net" link set lo up
  ip -n "$net" link set eth0 up
  ip -n "$net" addr add "$ip/24" dev eth0
  ip -n "$net" route add default via "$CONTROL_IP"
  in_net "$net" sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
  ip route replace "$SUBNET.$n.0/24" via "$ip"
  ip -n "$CONTROL_NET" route replace "$SUBNET.$n.0/24" via "$ip"
  for m in $(nodes); do
    [ "$m" = "$n" ] && continue
    ip -n "$net" route replace "$SUBNET.$m.0/24" via "$(node_ip "$m")"
    ip -n "$(node_net "$m")" route replace "$SUBNET.$n.0/24" via "$ip"
  done
}

runtime() { # runtime N NET DIR
  local n=$1 net=$2 dir=$3
  cat > "$dir/cni/10-$CNI_NAME.conflist" <<JSON
{"cniVersion":"1.0.0","name":"$CNI_NAME","plugins":[
 {"type":"bridge","bridge":"pods0","isDefaultGateway":true,"hairpinMode":true,"ipMasq":false,
  "ipam":{"type":"host-local","dataDir":"$dir/ipam","ranges":[[{"subnet":"$SUBNET.$n.0/24"}]]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
JSON
  cat > "$dir/containerd.toml" <<TOML
version = 2
root = "$dir/containerd"
state = "$SOCK/$n"
[grpc]
  address = "$SOCK/$n.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
TOML
  spawn "containerd-$n" nsenter --net="/run/netns/$net" containerd -c "$dir/containerd.toml"
  wait_for "containerd-$n" ctr -a "$SOCK/$n.sock" version
  import "$n" "$RUN/images/pause.tar"
  import "$n" "$RUN/images/busybox.tar"
}

kubelet() { # kubelet N NET DIR
  local n=$1 net=$2 dir=$3
  certificate "kubelet-$n" "/O=system:nodes/CN=system:node:node-$n" "DNS:node-$n,IP:$(node_ip "$n")"
  kubeconfig "kubelet-$n"
  cat > "$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $PKI/ca.crt}, webhook: {enabled: true}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP/node-$n
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$SOCK/$n.sock
clusterDNS: [$CONTROL_IP]
clusterDomain: cluster.local
resolvConf: ""
tlsCertFile: $PKI/kubelet-$n.crt
tlsPrivateKeyFile: $PKI/kubelet-$n.key
enforceNodeAllocatable: []
podLogsDir: $dir/logs
nodeStatusUpdateFrequency: 5s
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
YAML
  spawn "kubelet-$n" nsenter --net="/run/netns/$net" "$BIN/kubelet" --config="$dir/kubelet.yaml" \
    --kubeconfig="$RUN/kubelet-$n.kubeconfig" --hostname-override="node-$n" --node-ip="$(node_ip "$n")" --root-dir="$dir/kubelet"
}

# ---- cutting -----------------------------------------------------------------

# A cut is an nftables table on the node's port of the switch. Packets vanish, as on a broken
# network: no carrier is lost and nobody is told.
cut() {
  plugged "$1"
  local at="device \"node-$1\" priority 0" from to
  from=$(peers "${2:-}") # before anything is changed: it may refuse
  to=${from//saddr/daddr}
  in_net "$CONTROL_NET" nft -f - <<NFT || die "nftables refused: a cut needs Linux 5.16 (netdev egress hook)"
table netdev cut_$1${2:+_$2} {
  chain sent { type filter hook ingress $at; $to drop; }
  chain received { type filter hook egress $at; $from drop; }
}
NFT
}

heal() {
  plugged "$1"
  local table these="^cut_$1(_.*)?\$"
  [ -z "${2:-}" ] || these="^cut_$1_$2\$"
  for table in $(cut_tables | grep -E "$these"); do
    in_net "$CONTROL_NET" nft delete table netdev "$table"
  done
}

# peers [PEER]: a match for what comes from the peer; empty for everything
peers() {
  case ${1:-} in
    '') ;;
    control) echo "ip saddr $CONTROL_IP" ;;
    *) plugged "$1" && echo "ip saddr { $(node_ip "$1"), $SUBNET.$1.0/24 }" ;;
  esac
}

plugged() { [ -e "/run/netns/$(node_net "$1")" ] || die "no node '$1'; there are: $(nodes | tr '\n' ' ')"; }
cut_tables() { in_net "$CONTROL_NET" nft list tables netdev 2>/dev/null | sed -n 's/^table netdev \(cut_.*\)/\1/p'; }
cuts() { cut_tables | sed 's/^cut_\([0-9]*\)$/node \1 from everything/; s/^cut_\([0-9]*\)_\(.*\)/node \1 from \2/'; }
