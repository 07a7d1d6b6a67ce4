//! The variables that are not the user's to set, once for all who ask: rendering refuses them, the
//! schema names them.

use super::FORCED;

/// Set by the instance manager, or harmful to a replicated cluster in any value but the default.
const OWNED: &[&str] = &[
    // Who the server is and where it listens.
    "admin_address",
    "admin_port",
    "bind_address",
    "port",
    "report_host",
    "report_password",
    "report_port",
    "report_user",
    "server_id",
    "server_id_bits",
    "skip_networking",
    "socket",
    "user",
    // Where things are.
    "chroot",
    "datadir",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "log_bin",
    "log_bin_index",
    "log_error",
    "pid_file",
    "relay_log",
    "relay_log_index",
    "replica_load_tmpdir",
    "secure_file_priv",
    "slave_load_tmpdir",
    "tmpdir",
    // Certificates.
    "ssl",
    "ssl_ca",
    "ssl_capath",
    "ssl_cert",
    "ssl_key",
    // Who writes, who replicates, what counts.
    "binlog_do_db",
    "binlog_format",
    "binlog_ignore_db",
    "clone_valid_donor_list",
    "init_replica",
    "init_slave",
    "log_slave_updates",
    "offline_mode",
    "read_only",
    "relay_log_purge",
    "replica_skip_errors",
    "skip_replica_start",
    "skip_slave_start",
    "slave_preserve_commit_order",
    "slave_skip_errors",
    "super_read_only",
    // Plugins and ways around the server's own rules.
    "early_plugin_load",
    "initialize",
    "initialize_insecure",
    "plugin_load",
    "plugin_load_add",
    "skip_grant_tables",
    "upgrade",
];

/// Families that are not the user's either.
const OWNED_PREFIXES: &[&str] = &[
    "group_replication_",
    "replicate_",
    "rpl_semi_sync_",
    "semi_sync_",
];

/// Members of those families that people know, for the schema (which can't speak of a family).
const KNOWN_MEMBERS: &[&str] = &[
    "replicate_do_db",
    "replicate_do_table",
    "replicate_ignore_db",
    "replicate_ignore_table",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_master_timeout",
    "rpl_semi_sync_master_wait_for_slave_count",
    "rpl_semi_sync_replica_enabled",
    "rpl_semi_sync_slave_enabled",
    "rpl_semi_sync_source_enabled",
    "rpl_semi_sync_source_timeout",
    "rpl_semi_sync_source_wait_for_replica_count",
    "rpl_semi_sync_source_wait_no_replica",
    "rpl_semi_sync_source_wait_point",
];

/// Prefixes that the server takes before any option's name.
const MODIFIERS: &[&str] = &["skip_", "disable_", "enable_", "maximum_"];

/// All variables that are refused by name, sorted.
#[must_use]
pub fn owned_variables() -> Vec<&'static str> {
    let mut names: Vec<_> = names().chain(KNOWN_MEMBERS.iter().copied()).collect();
    names.sort_unstable();
    names
}

fn names() -> impl Iterator<Item = &'static str> {
    FORCED
        .iter()
        .map(|(name, _)| *name)
        .chain(OWNED.iter().copied())
}

/// Why a variable (normalised, without `loose_`) can't be set; `None` when it can.
pub(super) fn refusal(name: &str) -> Option<String> {
    let bare = MODIFIERS
        .iter()
        .find_map(|modifier| name.strip_prefix(modifier))
        .unwrap_or(name);
    let is = |owned: &str| owned == name || owned == bare;
    (names().any(is) || OWNED_PREFIXES.iter().any(|family| bare.starts_with(family)))
        .then(|| "is decided by Mainstay: leave it out".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_owned_variable_is_refused() {
        for name in [
            "gtid_mode",
            "log_bin",
            "skip_log_bin",
            "disable_log_bin",
            "enable_gtid_mode",
            "skip_replica_start",
            "plugin_load_add",
            "rpl_semi_sync_source_trace_level",
            "replicate_wild_do_table",
        ] {
            assert_eq!(
                refusal(name).as_deref(),
                Some("is decided by Mainstay: leave it out"),
                "{name}"
            );
        }
    }

    #[test]
    fn the_users_variables_are_the_users() {
        for name in [
            "max_connections",
            "innodb_buffer_pool_size",
            "sql_mode",
            "log_bin_trust_function_creators",
            "skip_external_locking",
            "sync_relay_log",
            "replica_parallel_workers",
            "validate_password.length",
            "tls_version",
            "port_open_timeout",
        ] {
            assert_eq!(refusal(name), None, "{name}");
        }
    }

    #[test]
    fn the_list_has_no_name_twice() {
        let names = owned_variables();
        assert!(names.is_sorted_by(|a, b| a < b));
    }
}
