//! my.cnf as all instances of a cluster share it: our defaults, overridden by the user's
//! variables, overridden by what loss-less replication needs.
//!
//! What differs between instances (server id, paths, TLS, plugins, read-only at the start, a buffer
//! pool derived from the memory limit) is added by the instance manager.

use std::collections::{BTreeMap, btree_map::Entry};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

mod owned;

pub use owned::owned_variables;

/// A variable that can't be set as asked.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{variable}: {why}")]
pub struct InvalidVariable {
    /// The variable, as the user wrote it.
    pub variable: String,
    /// Why, in words that follow its name.
    pub why: String,
}

/// What a cluster starts with where the user does not say otherwise.
const DEFAULTS: &[(&str, &str)] = &[
    // Three days. The server's thirty fill a small volume; a replica that was away for longer is
    // seeded anew by clone.
    ("binlog_expire_logs_seconds", "259200"),
    // Nothing of ours speaks the X protocol; its port and socket stay closed unless asked for.
    ("loose_mysqlx", "OFF"),
    // Seconds without an event or heartbeat (every second) until a replica takes its link for dead.
    ("replica_net_timeout", "10"),
];

/// What replication without loss stands on. Not for the user to change.
const FORCED: &[(&str, &str)] = &[
    ("enforce_gtid_consistency", "ON"),
    ("gtid_mode", "ON"),
    // A commit is durable on its server before it is acknowledged.
    ("innodb_flush_log_at_trx_commit", "1"),
    ("log_replica_updates", "ON"),
    // The manager reads replication's state there.
    ("performance_schema", "ON"),
    // `SET PERSIST` would win over this file and could make a restarted server writable.
    ("persisted_globals_load", "OFF"),
    // Keeps events that were received, and acknowledged, but not applied before a crash.
    ("relay_log_recovery", "OFF"),
    // A replica never shows, or hands on as primary, a state that the source never had.
    ("replica_preserve_commit_order", "ON"),
    // Pod addresses have no useful reverse names, and a slow DNS must not delay a connection.
    ("skip_name_resolve", "ON"),
    ("sync_binlog", "1"),
];

/// Longest name taken (MySQL's longest are below 70) and longest value: the server reads lines into
/// a buffer of 4 KiB, and escaping may double a value.
const MAX_NAME: usize = 80;
const MAX_VALUE: usize = 1900;

/// Renders my.cnf with the user's variables: one `[mysqld]` section, sorted, the same text for the
/// same meaning. `-` and `_` are one in names; `loose_` is kept.
pub fn render(user: &BTreeMap<String, String>) -> Result<String, InvalidVariable> {
    let mut variables: BTreeMap<String, Variable<'_>> = BTreeMap::new();
    for (written, value) in user {
        let refuse = |why: String| InvalidVariable {
            variable: printable(written),
            why,
        };
        let variable = Variable::named(written).map_err(refuse)?;
        if let Some(why) = owned::refusal(&variable.name) {
            return Err(refuse(why));
        }
        let value = quote(value).map_err(refuse)?;
        match variables.entry(variable.name.clone()) {
            Entry::Vacant(entry) => entry.insert(Variable { value, ..variable }),
            Entry::Occupied(other) => {
                return Err(refuse(format!(
                    "is the same variable as {}, which is set too",
                    other.get().written
                )));
            }
        };
    }
    for (written, value) in FORCED.iter().chain(DEFAULTS) {
        let (loose, name) = split_loose(written);
        variables.entry(name.to_owned()).or_insert(Variable {
            written,
            loose,
            name: name.to_owned(),
            value: (*value).to_owned(),
        });
    }
    let mut text = String::from("# Rendered by Mainstay from spec.config.\n[mysqld]\n");
    for variable in variables.values() {
        let loose = if variable.loose { "loose_" } else { "" };
        writeln!(text, "{loose}{} = {}", variable.name, variable.value)
            .expect("writing to a String can't fail");
    }
    Ok(text)
}

/// Identifies a rendered my.cnf: 16 hexadecimal digits of its SHA-256.
#[must_use]
pub fn hash(rendered: &str) -> String {
    Sha256::digest(rendered.as_bytes())
        .iter()
        .take(8)
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a String can't fail");
            text
        })
}

struct Variable<'a> {
    written: &'a str,
    loose: bool,
    name: String,
    value: String,
}

impl<'a> Variable<'a> {
    fn named(written: &'a str) -> Result<Self, String> {
        let valid = written.starts_with(|c: char| c.is_ascii_lowercase())
            && written.len() <= MAX_NAME
            && written
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c));
        if !valid {
            return Err(format!(
                "is not a variable's name: lower-case letters, digits, `_`, `-` and `.`, at most {MAX_NAME}"
            ));
        }
        let unified = written.replace('-', "_");
        let (loose, name) = split_loose(&unified);
        Ok(Self {
            written,
            loose,
            name: name.to_owned(),
            value: String::new(),
        })
    }
}

fn split_loose(name: &str) -> (bool, &str) {
    name.strip_prefix("loose_")
        .filter(|rest| !rest.is_empty())
        .map_or((false, name), |rest| (true, rest))
}

/// A value as an option file holds it: bare where nothing in it has a meaning there, else in double
/// quotes with `\` and `"` escaped.
fn quote(value: &str) -> Result<String, String> {
    if value.starts_with('\0') {
        return Err("must be a text, a number or a boolean".to_owned());
    }
    if value.chars().any(char::is_control) {
        return Err("has a control character in its value".to_owned());
    }
    if value.len() > MAX_VALUE {
        return Err(format!("is longer than {MAX_VALUE} bytes"));
    }
    let bare = !value.is_empty()
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.,:/+-%@=*".contains(c));
    Ok(if bare {
        value.to_owned()
    } else {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    })
}

/// A name from outside as a message may show it.
fn printable(name: &str) -> String {
    name.chars()
        .take(MAX_NAME)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(user: &[(&str, &str)]) -> Result<String, InvalidVariable> {
        render(
            &user
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    fn why(user: &[(&str, &str)]) -> String {
        rendered(user).unwrap_err().to_string()
    }

    #[test]
    fn the_hash_is_that_of_the_text() {
        // SHA-256 of nothing begins so.
        assert_eq!(hash(""), "e3b0c44298fc1c14");
        assert_ne!(hash("a"), hash("b"));
    }

    #[test]
    fn users_override_defaults_and_nothing_overrides_what_is_forced() {
        let text = rendered(&[("replica_net_timeout", "30"), ("max_connections", "500")]).unwrap();
        assert!(text.starts_with("# Rendered"));
        assert!(text.contains("\nreplica_net_timeout = 30\n"));
        assert!(text.contains("\nmax_connections = 500\n"));
        for (name, value) in FORCED {
            assert!(text.contains(&format!("\n{name} = {value}\n")), "{name}");
            assert!(why(&[(name, value)]).starts_with(&format!("{name}: ")));
        }
    }

    #[test]
    fn the_same_settings_render_the_same_sorted_text() {
        let text = rendered(&[("max-connections", "1"), ("xb.c", "2")]).unwrap();
        assert_eq!(
            text,
            rendered(&[("max_connections", "1"), ("xb.c", "2")]).unwrap()
        );
        let names: Vec<_> = text
            .lines()
            .skip(2)
            .map(|line| line.split(' ').next().unwrap().trim_start_matches("loose_"))
            .collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(hash(&text).len(), 16);
        assert_ne!(hash(&text), hash("other"));
    }

    #[test]
    fn loose_is_kept_and_is_the_same_variable() {
        let text = rendered(&[("loose-mysqlx", "ON"), ("loose_xa", "1")]).unwrap();
        assert!(text.contains("\nloose_mysqlx = ON\n") && text.contains("\nloose_xa = 1\n"));
        assert_eq!(text.matches("mysqlx").count(), 1);
        assert_eq!(
            why(&[("loose_xa", "1"), ("xa", "2")]),
            "xa: is the same variable as loose_xa, which is set too"
        );
    }

    #[test]
    fn a_value_is_one_value_whatever_is_in_it() {
        let text = rendered(&[
            ("xa", ""),
            ("xb", "x y # z"),
            ("xc", r#"\ and ""#),
            ("xd", "'quoted'"),
        ])
        .unwrap();
        assert!(text.contains("\nxa = \"\"\n"));
        assert!(text.contains("\nxb = \"x y # z\"\n"));
        assert!(text.contains("\nxc = \"\\\\ and \\\"\"\n"));
        assert!(text.contains("\nxd = \"'quoted'\"\n"));
        assert_eq!(
            why(&[("xe", "1\nsuper_read_only=OFF")]),
            "xe: has a control character in its value"
        );
        assert!(why(&[("xf", &"x".repeat(2000))]).contains("longer"));
        assert!(why(&[("xg", "\0[1]")]).contains("must be a text"));
    }

    #[test]
    fn names_are_checked_and_shown_without_control_characters() {
        for name in ["", "A", "1a", "a b", "a=1", "a\n[client]", "é"] {
            assert!(rendered(&[(name, "1")]).is_err(), "{name}");
        }
        assert!(!why(&[("a\n!include /x", "1")]).contains('\n'));
    }
}
