# Show the recipes.
default:
    @just --list

# Compile the operator.
build:
    cargo build --release --locked

# Formatting, clippy, and the rules for dependencies.
lint: tools
    .ci/lint

# All tests that need no cluster.
test:
    cargo test --locked

# Many random histories of the simulation, in a faster build; e.g. just simulation 1000
simulation SEEDS='1000':
    MAINSTAY_SEEDS={{SEEDS}} cargo test --locked --profile simulation --test simulation random -- --nocapture

# Whether the simulation (and the queue's model) can fail: deliberate breaks, each of which it must find; e.g. just mutants no-fence
mutants *NAMES:
    tests/simulation/mutants/check {{NAMES}}

# Whether three replicas grow in a world in which something always goes wrong; logs, samples and a picture go to target/soak
soak MINUTES='60' CLUSTERS='20':
    MAINSTAY_SOAK_MINUTES={{MINUTES}} MAINSTAY_SOAK_CLUSTERS={{CLUSTERS}} MAINSTAY_SOAK_DIR=target/soak cargo test --locked --release --test soak nothing_grows -- --nocapture

# What a cluster costs the replica that leads
soak-leader CLUSTERS='200':
    MAINSTAY_SOAK_LEADER={{CLUSTERS}} MAINSTAY_SOAK_DIR=target/soak cargo test --locked --release --test soak a_leader -- --nocapture

# The end-to-end suite, on the cluster of KUBECONFIG or else of tests/cluster; e.g. just e2e switchover
e2e *FILTER:
    .ci/e2e {{FILTER}}

# Throw bytes at a decoder (response, watch or kubeconfig), ten minutes unless told otherwise; needs cargo-fuzz and a nightly compiler. No sanitizer: there is no unsafe code of ours to watch
fuzz NAME SECONDS="600":
    mkdir -p target/fuzz-corpus/{{NAME}}
    cargo +nightly fuzz run --fuzz-dir tests/fuzz -s none {{NAME}} target/fuzz-corpus/{{NAME}} tests/fuzz/seeds/{{NAME}} -- -max_total_time={{SECONDS}} -timeout=10 -rss_limit_mb=1024

# Benchmarks.
bench *FILTER:
    cargo bench --locked {{FILTER}}

# The runtime beside client-go, controller-runtime and kube-rs: the same work in one run.
peers *ARGS:
    benches/peers/run {{ARGS}}

# The same trivial operator on all three, against a real kube-apiserver.
peers-operators SOURCES="2000":
    benches/peers/run-operators {{SOURCES}}

# Write the CustomResourceDefinition from the code.
crd:
    cargo run --quiet --locked -- crd > manifests/crd/mysqlclusters.mysql.mainstay.dev.yaml

# Write the documentation of the metrics from the code.
metrics:
    cargo run --quiet --locked -- metrics > manifests/components/monitoring/METRICS.md

# The alerts and their tests, as Prometheus reads them.
alerts: tools
    tests/monitoring/promtool

# Build the image and write target/mainstay.tar.
image:
    .ci/image

# Write the sample of the operator's options from the code.
config:
    env -i PATH="$PATH" HOME="$HOME" cargo run --quiet --locked -- run --print-config > manifests/samples/config.yaml

# A cluster of three nodes on this machine, with the images of MySQL and the operator.
cluster-up: image
    tests/cluster/cluster up 3
    tests/cluster/cluster mysql-image
    tests/cluster/cluster load target/mainstay.tar
    @echo 'Now: eval "$(tests/cluster/cluster env)"'

# Remove that cluster.
cluster-down:
    tests/cluster/cluster down

# Install the operator into the cluster of KUBECONFIG.
deploy:
    kubectl apply -k manifests
    kubectl -n mainstay-system rollout status deployment/mainstay --timeout=2m

# Build the image anew and restart the operator with it, on the cluster of tests/cluster.
redeploy: image
    tests/cluster/cluster load target/mainstay.tar
    kubectl -n mainstay-system rollout restart deployment/mainstay
    kubectl -n mainstay-system rollout status deployment/mainstay --timeout=2m

# Run the operator on this machine against the cluster of KUBECONFIG.
run *ARGS:
    cargo run --release --locked -- run --kubeconfig "${KUBECONFIG:-$HOME/.kube/config}" {{ARGS}}

# Install cargo-deny, just and promtool into target/tools/bin.
tools:
    .ci/tools

# Everything that CI does (about an hour when nothing is built; Debian, as root).
ci:
    .ci/run
