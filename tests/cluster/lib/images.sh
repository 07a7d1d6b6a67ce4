# shellcheck shell=bash
# Image archives, made without a registry or a container engine.

BUSYBOX_IMAGE=docker.io/library/busybox:mainstay
PAUSE_IMAGE=registry.k8s.io/pause:3.10
MYSQL_SERIES=9.7

# load FILE: every node imports at the same time.
load() {
  [ -f "$1" ] || die "no such archive: $1"
  local n failed=() pids=()
  [ -n "$(nodes)" ] || die "no cluster: cluster up"
  for n in $(nodes); do
    import "$n" "$1" &
    pids[n]=$!
  done
  for n in "${!pids[@]}"; do wait "${pids[n]}" || failed+=("node-$n"); done
  [ ${#failed[@]} = 0 ] || die "${failed[*]} could not import $1: see cluster logs containerd-N"
}

import() { node_ctr "$1" images import "$2" >/dev/null; }

# What a node itself needs: the pause image, and a shell for the volume provisioner.
base_images() {
  mkdir -p "$RUN/images/pause" "$RUN/images/busybox/bin" "$RUN/images/busybox/tmp"
  cp "$BIN/pause" "$RUN/images/pause/pause"
  archive "$RUN/images/pause" "$PAUSE_IMAGE" '{"Entrypoint":["/pause"]}'
  cp /bin/busybox "$RUN/images/busybox/bin/busybox"
  local applet
  for applet in $(/bin/busybox --list); do
    [ "$applet" = busybox ] || ln -sf busybox "$RUN/images/busybox/bin/$applet"
  done
  archive "$RUN/images/busybox" "$BUSYBOX_IMAGE" '{"Env":["PATH=/bin"],"Cmd":["sh"]}'
}

# mysql_image [TAG]: MySQL comes from Debian's unstable suite, the only one that has it.
mysql_image() {
  local tag=${1:-docker.io/library/mysql:$MYSQL_SERIES} root=$STATE/mysql-root version
  require_root
  require_tools
  mkdir -p "$STATE"
  (
    flock 9
    [ -x "$root/usr/sbin/mysqld" ] || mysql_root "$root"
    version=$(chroot "$root" /usr/sbin/mysqld --version | sed 's/.*Ver \([0-9]*\.[0-9]*\).*/\1/')
    [ "$version" = "$MYSQL_SERIES" ] || die "Debian's MySQL is $version, not $MYSQL_SERIES; remove $root and choose another suite"
    if [ ! -f "$root.tar" ] || [ "$(cat "$root.tag" 2>/dev/null)" != "$tag" ]; then
      archive "$root" "$tag" '{"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Entrypoint":["mysqld"],"User":"999:999"}'
      echo "$tag" > "$root.tag"
    fi
  ) 9> "$STATE/mysql.lock"
  if [ -n "$(nodes)" ]; then load "$root.tar"; fi
}

mysql_root() {
  local log=$STATE/debootstrap.log
  say "installing MySQL into $1"
  rm -rf "$1" "$1.part" "$1.tar"
  debootstrap --variant=minbase --include=mysql-server-core,mysql-client-core,zstd sid "$1.part" > "$log" 2>&1 ||
    die "debootstrap failed: $(tail -n 1 "$log") (all of it: $log)"
  rm -rf "$1.part"/var/cache/apt/* "$1.part"/var/lib/apt/lists/* "$1.part"/usr/share/{doc,man,locale,info}/*
  echo 'mysql:x:999:999::/var/lib/mysql:/usr/sbin/nologin' >> "$1.part/etc/passwd"
  echo 'mysql:x:999:' >> "$1.part/etc/group"
  mkdir -p "$1.part/var/lib/mysql"
  mv "$1.part" "$1"
}

# archive ROOT TAG CONFIG: ROOT.tar, an image of one layer that holds the folder ROOT.
archive() {
  tar --numeric-owner -C "$1" -cf "$1.layer" .
  python3 "$HERE/lib/archive.py" "$1.layer" "$2" "$3" "$1.tar.part"
  rm "$1.layer"
  mv "$1.tar.part" "$1.tar"
}
