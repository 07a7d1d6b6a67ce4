//! Accounts, with the least privileges each.

use super::text::{grant_pattern, identifier, literal};

/// The instance manager's account, on the socket only.
pub const ADMIN: &str = "mainstay_admin";
/// The replicas' account.
pub const REPLICATION: &str = "mainstay_repl";
/// The account that a new replica clones with.
pub const CLONE: &str = "mainstay_clone";

/// Passwords of the internal accounts, as they are in the cluster's Secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Passwords {
    /// `root@localhost`.
    pub root: String,
    /// [`ADMIN`].
    pub admin: String,
    /// [`REPLICATION`]; at most 32 characters (MySQL error 3056).
    pub replication: String,
    /// [`CLONE`].
    pub clone: String,
}

/// What the manager does itself: set variables, run replication, close sessions, rotate and reset
/// binary logs, clone, reload certificates. It neither reads nor writes anyone's data.
/// `SYSTEM_USER` keeps accounts that may create users from changing this one.
const ADMIN_PRIVILEGES: &str = "PROCESS, RELOAD, REPLICATION CLIENT, SYSTEM_USER, \
     SYSTEM_VARIABLES_ADMIN, SESSION_VARIABLES_ADMIN, CONNECTION_ADMIN, REPLICATION_SLAVE_ADMIN, \
     CLONE_ADMIN";

/// The text for `--init-file`: every internal account exists and has this password and exactly
/// these privileges, whatever the volume or a clone brought along.
///
/// Run at each start. On 9.7 the file runs before `super_read_only` takes effect, and with
/// `sql_log_bin=0` nothing of it gets a GTID: a new instance's `gtid_executed` stays empty.
#[must_use]
pub fn init_file(passwords: &Passwords) -> String {
    let mut lines = vec!["SET SESSION sql_log_bin=0, sql_mode='';".to_owned()];
    let mut account = |user: &str, host: &str, password: &str, tls: &str, grants: &[String]| {
        let name = format!("{}@{}", literal(user), literal(host));
        // Every limit that a person or a global default could set is taken back.
        let rest = format!(
            "IDENTIFIED WITH caching_sha2_password BY {} REQUIRE {tls} \
             WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0 MAX_CONNECTIONS_PER_HOUR 0 \
             MAX_USER_CONNECTIONS 0 PASSWORD EXPIRE NEVER PASSWORD HISTORY 0 \
             PASSWORD REUSE INTERVAL 0 DAY PASSWORD REQUIRE CURRENT OPTIONAL \
             FAILED_LOGIN_ATTEMPTS 0 PASSWORD_LOCK_TIME 0 ACCOUNT UNLOCK",
            literal(password)
        );
        lines.push(format!("CREATE USER IF NOT EXISTS {name} {rest};"));
        lines.push(format!("ALTER USER {name} {rest};"));
        for grant in grants {
            lines.push(grant.replace("{}", &name));
        }
    };
    let only = |privileges: &str| {
        vec![
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {};".to_owned(),
            format!("GRANT {privileges} ON *.* TO {{}};"),
        ]
    };
    let mut admin = only(ADMIN_PRIVILEGES);
    admin.push("GRANT SELECT ON performance_schema.* TO {};".to_owned());
    account(
        "root",
        "localhost",
        &passwords.root,
        "NONE",
        &["GRANT ALL PRIVILEGES ON *.* TO {} WITH GRANT OPTION;".to_owned()],
    );
    account(ADMIN, "localhost", &passwords.admin, "NONE", &admin);
    account(
        REPLICATION,
        "%",
        &passwords.replication,
        "SSL",
        &only("REPLICATION SLAVE"),
    );
    account(CLONE, "%", &passwords.clone, "SSL", &only("BACKUP_ADMIN"));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Statements that make the application's database and account exist. Binlogged: replicas get
/// them by replication.
#[must_use]
pub fn ensure_app(
    username: &str,
    password: &str,
    database: &str,
    partial_revokes: bool,
) -> Vec<String> {
    let name = format!("{}@'%'", literal(username));
    let password = literal(password);
    vec![
        format!("CREATE DATABASE IF NOT EXISTS {}", identifier(database)),
        format!("CREATE USER IF NOT EXISTS {name} IDENTIFIED BY {password}"),
        format!("ALTER USER {name} IDENTIFIED BY {password}"),
        format!(
            "GRANT ALL PRIVILEGES ON {}.* TO {name}",
            grant_pattern(database, partial_revokes)
        ),
    ]
}

/// Whether an application may not have this name: it belongs to the server or to Mainstay.
#[must_use]
pub fn is_reserved(username: &str) -> bool {
    username.is_empty()
        || username == "root"
        || username.starts_with("mysql.")
        || [ADMIN, REPLICATION, CLONE].contains(&username)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords() -> Passwords {
        Passwords {
            root: r"ro'ot\".to_owned(),
            admin: "a".to_owned(),
            replication: "r".to_owned(),
            clone: "c".to_owned(),
        }
    }

    #[test]
    fn nothing_of_the_init_file_is_binlogged() {
        let text = init_file(&passwords());
        assert!(text.starts_with("SET SESSION sql_log_bin=0"));
        assert!(
            text.lines().all(|line| line.ends_with(';')),
            "one statement a line"
        );
        assert!(text.contains(r"BY 'ro''ot\\'"));
    }

    #[test]
    fn remote_accounts_need_tls_and_only_root_may_grant() {
        for line in init_file(&passwords()).lines() {
            if line.contains("@'%'") && line.contains("IDENTIFIED") {
                assert!(line.contains("REQUIRE SSL"), "{line}");
            }
            assert_eq!(
                line.contains("WITH GRANT OPTION"),
                line.starts_with("GRANT") && line.contains("'root'")
            );
        }
    }

    #[test]
    fn internal_accounts_are_reserved() {
        assert!(is_reserved("mainstay_repl") && is_reserved("root") && is_reserved("mysql.sys"));
        assert!(!is_reserved("app"));
    }
}
