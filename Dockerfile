# The operator's image: one static binary and the CA roots.
#
#   docker build -t mainstay:dev .                           compiles in the builder stage
#   docker build -t mainstay:dev --build-arg BINARY=host .   takes what `just image` put into target/image
ARG BINARY=builder

FROM docker.io/library/rust:1.95.0-bookworm AS builder
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools && rm -rf /var/lib/apt/lists/*
WORKDIR /mainstay
COPY . .
RUN cargo build --release --locked --bin mainstay --target x86_64-unknown-linux-musl \
 && install -D target/x86_64-unknown-linux-musl/release/mainstay /image/mainstay \
 && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt

FROM scratch AS host
COPY target/image /image

FROM ${BINARY} AS binary

FROM scratch
COPY --from=binary /image/ /
USER 65532:65532
ENTRYPOINT ["/mainstay"]
