//! The configuration file of one instance.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// What mysqld needs beside its buffer pool, measured on 9.7 with the Performance Schema as it is by
/// default (530 MB with a pool of 64 MiB), rounded up.
const OVERHEAD: u64 = 512 << 20;
/// Default of `innodb_buffer_pool_chunk_size`: pools above it are rounded up to a multiple of it.
const CHUNK: u64 = 128 << 20;
/// The least that makes sense.
const POOL_MIN: u64 = 64 << 20;

/// What one instance has of its own.
#[derive(Clone, Debug)]
pub struct InstanceConfig {
    /// Unique in the cluster, at least 1.
    pub server_id: u32,
    /// DNS name that others reach it by.
    pub report_host: String,
    /// Where it listens.
    pub bind_address: String,
    /// TCP port.
    pub port: u16,
    /// Data directory.
    pub datadir: PathBuf,
    /// Unix socket.
    pub socket: PathBuf,
    /// Pid file.
    pub pid_file: PathBuf,
    /// Temporary files.
    pub tmpdir: PathBuf,
    /// File of statements to run at start.
    pub init_file: PathBuf,
    /// CA certificate, certificate and key.
    pub tls: (PathBuf, PathBuf, PathBuf),
    /// The container's memory limit in bytes, where it has one.
    pub memory_limit: Option<u64>,
}

/// The text of the option file: what is common to all instances, then what this one must have. Of an
/// option that is given twice mysqld takes the last, so nothing in `common` can undo what the data's
/// safety rests on.
#[must_use]
pub fn render(common: &str, instance: &InstanceConfig) -> String {
    let mut text = common.trim_end().to_owned();
    text.push_str("\n\n[mysqld]\n");
    let mut set = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}={value}");
    };
    if let Some(limit) = instance.memory_limit
        && !sets(common, "innodb_buffer_pool_size")
        && !sets(common, "innodb_dedicated_server")
    {
        set(
            "innodb_buffer_pool_size",
            &buffer_pool_size(limit).to_string(),
        );
    }
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let (ca, certificate, key) = &instance.tls;
    for (name, value) in [
        ("server_id", instance.server_id.to_string()),
        ("report_host", instance.report_host.clone()),
        ("bind_address", instance.bind_address.clone()),
        ("port", instance.port.to_string()),
        ("datadir", path(&instance.datadir)),
        ("socket", path(&instance.socket)),
        ("pid_file", path(&instance.pid_file)),
        ("tmpdir", path(&instance.tmpdir)),
        ("init_file", path(&instance.init_file)),
        ("ssl_ca", path(ca)),
        ("ssl_cert", path(certificate)),
        ("ssl_key", path(key)),
    ] {
        set(name, &value);
    }
    text + FIXED + PLUGINS + CLOSED
}

/// The text of the option file that a data directory is created with in `datadir`: what is common,
/// for some of it can't be changed later, and nothing that needs a server.
#[must_use]
pub fn render_initial(common: &str, instance: &InstanceConfig, datadir: &Path) -> String {
    let common = common.trim_end();
    let (datadir, tmpdir) = (datadir.display(), instance.tmpdir.display());
    format!("{common}\n\n[mysqld]\ndatadir={datadir}\ntmpdir={tmpdir}\n{PLUGINS}{CLOSED}")
}

/// Semi-sync and clone, without which their variables do not exist.
const PLUGINS: &str = "plugin_load_add=semisync_source.so;semisync_replica.so;mysql_clone.so\n";

/// No files by SQL, no X protocol.
const CLOSED: &str = "secure_file_priv=NULL\nmysqlx=OFF\n";

/// The same for every instance, and never otherwise.
///
/// - `persisted_globals_load=OFF`: a `SET PERSIST read_only=OFF` of some day must not make an instance
///   writable at start; what is to last belongs into the cluster's spec.
/// - `relay_log_recovery=OFF`: what a replica acknowledged is in its relay log and must survive a crash.
/// - `replica_net_timeout`: the receiver tries to connect anew after that much silence. Longer than a
///   failover takes to be decided: a receiver that is connecting needs up to 2 s to stop.
/// - `replicate_same_server_id`: an instance with a new, empty volume needs the transactions that it
///   wrote itself in its former life. Without it the receiver passes over them, in silence; GTIDs are
///   what keeps a transaction from coming back to where it is.
/// - `skip_name_resolve`: accounts go by address, and a DNS outage must not stall logins.
const FIXED: &str = "\
super_read_only=ON
skip_replica_start=ON
persisted_globals_load=OFF
gtid_mode=ON
enforce_gtid_consistency=ON
log_bin=binlog
log_replica_updates=ON
sync_binlog=1
innodb_flush_log_at_trx_commit=1
relay_log=relay
relay_log_recovery=OFF
replica_preserve_commit_order=ON
replica_net_timeout=10
replicate_same_server_id=ON
skip_name_resolve=ON
";

/// Whether an option file sets `variable` (with underscores) for the server.
fn sets(text: &str, variable: &str) -> bool {
    let mut server = false;
    text.lines().map(str::trim).any(|line| {
        if let Some(group) = line.strip_prefix('[') {
            server = group.trim_end_matches(']') == "mysqld"
                || group.starts_with("mysqld-")
                || group.starts_with("server");
            return false;
        }
        let name = line
            .split('=')
            .next()
            .unwrap_or_default()
            .trim()
            .replace('-', "_");
        server
            && name
                .trim_start_matches("loose_")
                .eq_ignore_ascii_case(variable)
    })
}

/// Seventy parts in a hundred of what is left once the rest of mysqld has its share.
fn buffer_pool_size(memory_limit: u64) -> u64 {
    let pool = memory_limit.saturating_sub(OVERHEAD) / 100 * 70;
    if pool < CHUNK {
        POOL_MIN
    } else {
        pool / CHUNK * CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(memory_limit: Option<u64>) -> InstanceConfig {
        let path = PathBuf::from;
        InstanceConfig {
            server_id: 1002,
            report_host: "demo-2.demo-instances.x.svc".into(),
            bind_address: "*".into(),
            port: 3306,
            datadir: path("/var/lib/mysql/data"),
            socket: path("/run/mainstay/mysqld.sock"),
            pid_file: path("/run/mainstay/mysqld.pid"),
            tmpdir: path("/tmp"),
            init_file: path("/run/mainstay/init.sql"),
            tls: (path("/t/ca.crt"), path("/t/tls.crt"), path("/t/tls.key")),
            memory_limit,
        }
    }

    #[test]
    fn what_safety_rests_on_comes_last() {
        let text = render(
            "[mysqld]\nsync_binlog=0\nsuper-read-only=OFF\n",
            &instance(None),
        );
        assert!(text.rfind("sync_binlog=1") > text.find("sync_binlog=0"));
        assert!(text.rfind("super_read_only=ON") > text.find("super-read-only=OFF"));
        assert!(!text.contains("buffer_pool"));
    }

    #[test]
    fn sizes_the_buffer_pool_unless_it_is_set() {
        let gib = 1 << 30;
        assert!(
            render("[mysqld]", &instance(Some(gib))).contains("innodb_buffer_pool_size=268435456")
        );
        for own in [
            "innodb-buffer-pool-size = 1G",
            "loose_innodb_buffer_pool_size=1G",
        ] {
            let text = render(&format!("[mysqld]\n{own}\n"), &instance(Some(gib)));
            assert!(!text.contains("=268435456"), "{own}");
        }
        assert!(
            render("[client]\ninnodb_buffer_pool_size=1", &instance(Some(gib)))
                .contains("=268435456")
        );
    }

    #[test]
    fn the_buffer_pool_leaves_room() {
        assert_eq!(buffer_pool_size(256 << 20), POOL_MIN);
        assert_eq!(buffer_pool_size(768 << 20), CHUNK);
        assert_eq!(buffer_pool_size(4 << 30), 19 * CHUNK);
    }
}
