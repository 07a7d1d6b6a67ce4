# shellcheck shell=bash
# The nodes' network and the control plane.

# The namespace of the control plane holds the switch that all nodes and the machine are plugged into.
network() {
  ip netns add "$CONTROL_NET"
  ip -n "$CONTROL_NET" link set lo up
  ip -n "$CONTROL_NET" link add nodes type bridge
  ip -n "$CONTROL_NET" addr add "$CONTROL_IP/24" dev nodes
  ip -n "$CONTROL_NET" link set nodes up
  ip link add "$HOST_LINK" type veth peer name host netns "$CONTROL_NET"
  ip -n "$CONTROL_NET" link set host master nodes up
  ip addr add "$HOST_IP/24" dev "$HOST_LINK"
  ip link set "$HOST_LINK" up
}

authority() {
  mkdir -p "$PKI" "$LOG"
  openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null
  openssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$PKI/ca.key" -out "$PKI/ca.crt" -subj /CN=mainstay-test-ca -days 30 2>/dev/null
}

# certificate NAME SUBJECT [ALTERNATIVE NAMES]
certificate() {
  local extensions=$'basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth,serverAuth\n'
  [ -z "${3:-}" ] || extensions+="subjectAltName=$3"$'\n'
  openssl req -newkey rsa:2048 -nodes -keyout "$PKI/$1.key" -out "$PKI/$1.csr" -subj "$2" 2>/dev/null
  openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -out "$PKI/$1.crt" -days 30 \
    -extfile <(printf '%s' "$extensions") 2>/dev/null
}

# kubeconfig NAME: for the certificate of that name.
kubeconfig() {
  cat > "$RUN/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: mainstay-test-$SLOT, cluster: {server: "$SERVER", certificate-authority: $PKI/ca.crt}}]
users: [{name: $1, user: {client-certificate: $PKI/$1.crt, client-key: $PKI/$1.key}}]
contexts: [{name: mainstay-test-$SLOT, context: {cluster: mainstay-test-$SLOT, user: $1}}]
current-context: mainstay-test-$SLOT
YAML
}

control() { local name=$1; shift; spawn "$name" nsenter --net="/run/netns/$CONTROL_NET" "$@"; }

control_plane() {
  authority
  certificate apiserver /CN=kube-apiserver \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:$CONTROL_IP"
  certificate admin /O=system:masters/CN=admin
  certificate kcm /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  local user
  for user in admin kcm scheduler; do kubeconfig "$user"; done
  etcd_and_apiserver
  control kcm "$BIN/kube-controller-manager" --kubeconfig="$RUN/kcm.kubeconfig" \
    --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt" \
    --use-service-account-credentials=true --leader-elect=false --node-monitor-grace-period=20s
  control scheduler "$BIN/kube-scheduler" --kubeconfig="$RUN/scheduler.kubeconfig" --leader-elect=false
  cat > "$RUN/Corefile" <<CONF
.:53 {
  bind $CONTROL_IP
  errors
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig $RUN/admin.kubeconfig
    pods insecure
  }
  cache 2
}
CONF
  control coredns "$BIN/coredns" -conf "$RUN/Corefile"
}

etcd_and_apiserver() {
  control etcd "$BIN/etcd" --data-dir "$RUN/etcd" --unsafe-no-fsync --log-level warn
  # Who changed what, when: one JSON object a line in the log `audit`.
  cat > "$RUN/audit.yaml" <<YAML
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, verbs: [get, list, watch]}
  - {level: Metadata}
YAML
  # Aggregator routing lets the API server, which stands outside the nodes, reach webhooks at their pods.
  control apiserver "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
    --bind-address="$CONTROL_IP" --advertise-address="$CONTROL_IP" --secure-port=6443 \
    --client-ca-file="$PKI/ca.crt" --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=$SERVICE_RANGE \
    --kubelet-client-certificate="$PKI/kubelet-client.crt" --kubelet-client-key="$PKI/kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --enable-aggregator-routing=true --allow-privileged=true \
    --audit-policy-file="$RUN/audit.yaml" --audit-log-path="$LOG/audit" --audit-log-maxsize=200
  wait_for apiserver kube get --raw /readyz
}

# A default StorageClass, whose volumes are folders under $RUN.
storage() {
  mkdir -p "$RUN/volumes"
  local paths='{"nodePathMap":[{"node":"DEFAULT_PATH_FOR_NON_LISTED_NODES","paths":["'$RUN/volumes'"]}]}'
  echo "$paths" > "$RUN/storage.json"
  kube apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Namespace
metadata: {name: local-path-storage}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: rancher.io/local-path
volumeBindingMode: WaitForFirstConsumer
reclaimPolicy: Delete
---
apiVersion: v1
kind: ConfigMap
metadata: {name: local-path-config, namespace: local-path-storage}
data:
  config.json: '$paths'
  setup: |
    #!/bin/sh
    mkdir -m 0777 -p "\$VOL_DIR"
  teardown: |
    #!/bin/sh
    rm -rf "\$VOL_DIR"
  helperPod.yaml: |
    apiVersion: v1
    kind: Pod
    metadata: {name: helper-pod}
    spec:
      priorityClassName: system-node-critical
      tolerations: [{operator: Exists}]
      containers: [{name: helper-pod, image: "$BUSYBOX_IMAGE", imagePullPolicy: Never}]
YAML
  control storage env POD_NAMESPACE=local-path-storage "$BIN/local-path-provisioner" start \
    --kubeconfig "$RUN/admin.kubeconfig" --config "$RUN/storage.json" --namespace local-path-storage \
    --helper-image "$BUSYBOX_IMAGE" --service-account-name default \
    --provisioner-name rancher.io/local-path --configmap-name local-path-config
}
