//! `mainstay instance`: the manager inside a MySQL container.

use std::{error::Error, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use crate::instance::{self, InstanceError, Settings, find_mysqld};
use crate::runtime::{LogFormat, init_tracing};

/// First `server_id`: the ordinal is added.
const SERVER_ID_BASE: u32 = 1000;

/// Arguments of `mainstay instance`.
#[derive(Debug, Args)]
pub(super) struct InstanceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Copy this executable into a folder, for the MySQL container to run
    Install {
        /// The folder
        folder: PathBuf,
    },
    /// Run and manage mysqld, as PID 1 of its container
    Run(Box<RunArgs>),
}

/// All come from the pod's environment; flags are for running it by hand.
#[derive(Debug, Args)]
struct RunArgs {
    /// Name of the pod
    #[arg(long, env = "POD_NAME")]
    name: String,
    /// UID of the pod
    #[arg(long, env = "POD_UID", default_value = "")]
    pod_uid: String,
    /// Number of the instance in its cluster
    #[arg(long, env = "ORDINAL")]
    ordinal: u32,
    /// Domain that completes the pod's name to the one others reach it by
    #[arg(long, env = "HEADLESS_DOMAIN", default_value = "")]
    domain: String,
    /// Name or address that others reach this instance by [default: NAME.DOMAIN]
    #[arg(long, env = "MAINSTAY_HOST")]
    host: Option<String>,
    /// Memory limit in bytes; the buffer pool is a part of it
    #[arg(long, env = "MEMORY_LIMIT")]
    memory_limit: Option<u64>,
    /// mysqld [default: in PATH, /usr/sbin or /usr/libexec]
    #[arg(long, env = "MAINSTAY_MYSQLD")]
    mysqld: Option<PathBuf>,
    /// Address that mysqld listens on
    #[arg(long, env = "MAINSTAY_BIND_ADDRESS", default_value = "*")]
    bind_address: String,
    /// Port of mysqld, the same on every instance
    #[arg(long, env = "MAINSTAY_MYSQL_PORT", default_value_t = 3306)]
    mysql_port: u16,
    /// Address and port of the manager
    #[arg(long, env = "MAINSTAY_LISTEN", default_value_t = SocketAddr::from(([0, 0, 0, 0], instance::PORT)))]
    listen: SocketAddr,
    /// The volume: data in `data`, the manager's files in `mainstay`
    #[arg(long, env = "MAINSTAY_VOLUME", default_value = "/var/lib/mysql")]
    volume: PathBuf,
    /// Socket, pid file and generated files
    #[arg(long, env = "MAINSTAY_RUN", default_value = "/run/mainstay")]
    run: PathBuf,
    /// Temporary files of mysqld
    #[arg(long, env = "MAINSTAY_TMP", default_value = "/tmp")]
    tmp: PathBuf,
    /// Configuration common to all instances
    #[arg(
        long,
        env = "MAINSTAY_CONFIG",
        default_value = "/etc/mainstay/config/my.cnf"
    )]
    config: PathBuf,
    /// Folder with ca.crt, tls.crt and tls.key
    #[arg(long, env = "MAINSTAY_TLS", default_value = "/etc/mainstay/tls")]
    tls: PathBuf,
    /// Folder with token, admin, replication and clone
    #[arg(
        long,
        env = "MAINSTAY_INTERNAL",
        default_value = "/etc/mainstay/internal"
    )]
    internal: PathBuf,
    /// File with the password of root
    #[arg(
        long,
        env = "MAINSTAY_ROOT_PASSWORD",
        default_value = "/etc/mainstay/root/password"
    )]
    root_password: PathBuf,
    /// File with lines `ADDRESS:PORT NAME` of the peers' MySQL, where DNS does not know them
    #[arg(long, env = "MAINSTAY_HOSTS")]
    hosts: Option<PathBuf>,
    /// Stop, as on SIGTERM, once standard input ends: whoever started this is gone
    #[arg(long, env = "MAINSTAY_STOP_WITH_STDIN")]
    stop_with_stdin: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: InstanceArgs) -> Result<(), Box<dyn Error>> {
    let filter = std::env::var("MAINSTAY_LOG").unwrap_or_else(|_| "info".to_owned());
    init_tracing(LogFormat::Text, &filter, Duration::ZERO);
    match args.action {
        Action::Install { folder } => {
            let target = instance::install(&folder)?;
            tracing::info!(target = %target.display(), "installed");
            Ok(())
        }
        Action::Run(args) => {
            if args.stop_with_stdin {
                std::thread::spawn(super::stop_with_stdin);
            }
            Ok(instance::run(settings(*args)?).await?)
        }
    }
}

fn settings(args: RunArgs) -> Result<Settings, InstanceError> {
    let found = args
        .mysqld
        .or_else(|| find_mysqld(std::env::var_os("PATH").as_deref()));
    let host = args.host.unwrap_or_else(|| match args.domain.as_str() {
        "" => args.name.clone(),
        domain => format!("{}.{domain}", args.name),
    });
    Ok(Settings {
        name: args.name,
        pod_uid: args.pod_uid,
        host,
        server_id: SERVER_ID_BASE + args.ordinal,
        // The downward API says 0 nowhere, yet no limit may come as 0.
        memory_limit: args.memory_limit.filter(|limit| *limit > 0),
        mysqld: found.ok_or(InstanceError::NoMysqld)?,
        bind_address: args.bind_address,
        mysql_port: args.mysql_port,
        listen: args.listen,
        volume: args.volume,
        run: args.run,
        tmp: args.tmp,
        config: args.config,
        tls: args.tls,
        internal: args.internal,
        root_password: args.root_password,
        hosts: args.hosts,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        instance: InstanceArgs,
    }

    fn parse(arguments: &[&str]) -> Settings {
        let all = ["mainstay", "run", "--mysqld", "/usr/sbin/mysqld"]
            .iter()
            .chain(arguments);
        let Action::Run(args) = Cli::try_parse_from(all).unwrap().instance.action else {
            panic!()
        };
        settings(*args).unwrap()
    }

    #[test]
    fn an_instance_is_known_by_its_name_in_the_domain() {
        let domain = "demo-instances.x.svc";
        let settings = parse(&["--name", "demo-2", "--ordinal", "2", "--domain", domain]);
        assert_eq!(settings.host, "demo-2.demo-instances.x.svc");
        assert_eq!(settings.server_id, 1002);
        assert_eq!(settings.listen.port(), 8443);
        assert_eq!(settings.datadir(), PathBuf::from("/var/lib/mysql/data"));
    }

    #[test]
    fn a_host_can_be_given() {
        let settings = parse(&[
            "--name",
            "a",
            "--ordinal",
            "0",
            "--host",
            "127.0.0.2",
            "--memory-limit",
            "0",
        ]);
        assert_eq!(
            (settings.host.as_str(), settings.memory_limit),
            ("127.0.0.2", None)
        );
    }
}
