# shellcheck shell=bash
# The programs, each built once from its Go module and kept in $BIN.

ETCD=v3.7.3
COREDNS=v1.15.0
LOCAL_PATH=v0.0.30

PROGRAMS=(kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy
  etcd coredns local-path-provisioner pause)

built() {
  local program
  for program in "${PROGRAMS[@]}"; do [ -x "$BIN/$program" ] || return 1; done
}

build() {
  built && return
  command -v go >/dev/null || die "missing: go 1.26 or newer, to build $KUBERNETES"
  mkdir -p "$BIN" "$STATE/src"
  (
    flock 9 # one build at a time: the second finds the first one's programs
    cd "$STATE/src"
    scratch_module
    local version="-X k8s.io/component-base/version.gitVersion=$KUBERNETES"
    version+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(minor)"
    local name
    for name in "${PROGRAMS[@]}"; do
      case $name in
        etcd) program etcd go.etcd.io/etcd/server/v3 ;;
        coredns) program coredns github.com/coredns/coredns ;;
        local-path-provisioner) program local-path-provisioner github.com/rancher/local-path-provisioner ;;
        pause) cd "$HERE/pause" && program pause . ;;
        *) program "$name" "k8s.io/kubernetes/cmd/$name" "$version" ;;
      esac
    done
  ) 9> "$STATE/build.lock"
}

minor() { local version=${KUBERNETES#v1.}; echo "${version%%.*}"; }

# One Go module for all programs, so that what they share is compiled once.
scratch_module() {
  printf 'module scratch\n\ngo 1.26.0\n' > go.mod
  local module file
  for module in "k8s.io/kubernetes@$KUBERNETES" "go.etcd.io/etcd/server/v3@$ETCD" \
    "github.com/coredns/coredns@$COREDNS" "github.com/rancher/local-path-provisioner@$LOCAL_PATH"; do
    go mod edit -require="$module"
  done
  # Kubernetes' go.mod points its libraries at folders beside it; point them at their releases.
  file=$(go mod download -json "k8s.io/kubernetes@$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  [ -f "$file" ] || die "go can't fetch k8s.io/kubernetes@$KUBERNETES: is a module proxy reached? (go env GOPROXY)"
  for module in $(awk '$2 == "v0.0.0" {print $1}' "$file"); do
    go mod edit -replace "$module=$module@v0.${KUBERNETES#v1.}"
  done
}

# program NAME PACKAGE [LINKER FLAGS]
program() {
  [ -x "$BIN/$1" ] && return
  local from=$SECONDS
  CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-s -w ${3:-}" -o "$BIN/$1.part" "$2"
  mv "$BIN/$1.part" "$BIN/$1"
  say "built $1 in $((SECONDS - from)) s"
}
