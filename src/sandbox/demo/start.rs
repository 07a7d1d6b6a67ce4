//! Starts the parts of a demo, in their order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::act::OPERATOR;
use super::error::DemoError;
use super::faults::Faults;
use super::folder::Folder;
use super::observer::Observer;
use super::operators::{OperatorProcess, OperatorSpec};
use super::sql::{ModelledServers, RealServers, Servers, Writer};
use super::world::{World, read_write_target};
use super::{DemoOptions, mysqld, random, setup};
use crate::apiserver::{self, Access, ApiServer, ApiServerOptions};
use crate::client::{Client, ClientOptions, Config, ConfigSource};
use crate::operator::kinds::Pod;
use crate::runtime::{ObjectKey, Shutdown};
use crate::sandbox::{Models, Mysqls, Node, NodeOptions, ProcessOptions, Processes, Runtime};

/// Nodes, so that instances can be apart.
const NODES: usize = 3;
/// Replicas of the operator.
const OPERATORS: usize = 3;
/// The Lease that they elect their leader by.
const LEASE: (&str, &str) = ("mainstay-system", "mainstay");
/// Seconds: the Lease's duration, renew deadline and renew interval. A third of the defaults, so that
/// the takeover from a leader that was killed is not most of a demo.
const ELECTION: [&str; 3] = ["5", "4", "0.5"];

/// A demo that was started.
pub(super) struct Demo {
    /// Its parts.
    pub(super) world: Arc<World>,
    /// The processes that pods are made of, where they are.
    pub(super) processes: Option<Processes>,
    /// Tasks that must live as long as it.
    pub(super) tasks: Vec<(&'static str, JoinHandle<()>)>,
}

/// Starts everything; it runs until `stop`.
pub(super) async fn start(
    options: &DemoOptions,
    folder: &Folder,
    stop: &Shutdown,
) -> Result<Demo, DemoError> {
    let started = Instant::now();
    let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let access = Access::tls("mainstay-demo", hosts).map_err(DemoError::Certificate)?;
    let listener = listen(options.listen).await?;
    let address = listener.local_addr().map_err(|error| DemoError::Listen {
        address: options.listen.to_string(),
        error,
    })?;
    let mut users = Users {
        access: &access,
        address,
        folder,
        tokens: BTreeMap::new(),
    };
    let kubeconfig = users.add("you", "kubeconfig")?;
    let own = users.add("demo", "demo.kubeconfig")?;
    let kubelet = users.add("node", "node.kubeconfig")?;
    let mut operators = Vec::new();
    for number in 1..=OPERATORS {
        let name = format!("{OPERATOR}{number}");
        let kubeconfig = users.add(&name, &format!("{name}.kubeconfig"))?;
        operators.push((name, kubeconfig));
    }
    let api = ApiServer::new(ApiServerOptions {
        tokens: users.tokens,
        ..ApiServerOptions::default()
    });
    let server = tokio::spawn({
        let (api, tls, stop) = (api.clone(), access.server(), stop.clone());
        async move {
            api.serve(listener, tls, async { stop.triggered().await })
                .await;
        }
    });

    let client = client(&own, "mainstay-demo").await?;
    setup::install(&client, LEASE.0).await?;
    let mysql = Mysql::choose(options, folder).await?;
    let node = Node::new(
        self::client(&kubelet, "mainstay-node").await?,
        NodeOptions {
            nodes: NODES,
            runtime: mysql.runtime(),
            images: None,
        },
    );
    api.set_pod_dialer(Arc::new(node.clone()));
    let kubelet = tokio::spawn(node.run(stop.clone()));
    setup::sample(&client).await?;
    let operators = start_operators(operators, folder, stop)?;

    let cluster = setup::sample_key();
    let lease = ObjectKey::new(LEASE.0, LEASE.1);
    let observer = Arc::new(Observer::start(&client, cluster.clone(), lease, stop));
    let faults = Arc::new(Faults::default());
    let servers = mysql.servers(&faults);
    let target = observer.clone();
    let world = World {
        started,
        mysql: mysql.words(),
        cut_words: mysql.cut_words(),
        kubeconfig,
        cluster,
        client,
        api,
        node,
        writer: Writer::new(servers.clone(), move || read_write_target(&target)),
        observer,
        operators,
        servers,
        faults,
        board: Mutex::default(),
    };
    Ok(Demo {
        world: Arc::new(world),
        processes: mysql.processes(),
        tasks: vec![("the API server", server), ("the node", kubelet)],
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, DemoError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| DemoError::Listen {
            address: address.to_string(),
            error,
        })
}

/// Who may speak to the API server, each with a token and a kubeconfig.
struct Users<'a> {
    access: &'a Access,
    address: SocketAddr,
    folder: &'a Folder,
    tokens: BTreeMap<String, apiserver::Client>,
}

impl Users<'_> {
    fn add(&mut self, name: &str, file: &str) -> Result<PathBuf, DemoError> {
        let token = random::hex::<16>();
        let kubeconfig = self.access.kubeconfig(self.address, name, &token);
        self.tokens.insert(token, apiserver::Client::admin(name));
        self.folder.write(file, &kubeconfig)
    }
}

async fn client(kubeconfig: &Path, agent: &str) -> Result<Client, DemoError> {
    let source = ConfigSource {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
    };
    let options = ClientOptions {
        user_agent: format!("{agent}/{}", env!("CARGO_PKG_VERSION")),
        // It watches and counts; it is not what is to be limited.
        qps: 1000.0,
        burst: 1000,
        ..ClientOptions::default()
    };
    Ok(Client::new(Config::load(&source).await?, options)?)
}

fn start_operators(
    operators: Vec<(String, PathBuf)>,
    folder: &Folder,
    stop: &Shutdown,
) -> Result<Vec<OperatorProcess>, DemoError> {
    let program = this_program()?;
    let start = |(name, kubeconfig): (String, PathBuf)| {
        let [duration, deadline, interval] = ELECTION;
        let kubeconfig = kubeconfig.to_string_lossy().into_owned();
        let arguments = [
            "run",
            "--stop-with-stdin",
            "--kubeconfig",
            &kubeconfig,
            "--listen",
            "127.0.0.1:0",
            "--instance-access",
            "proxy",
            "--lease-namespace",
            LEASE.0,
            "--lease-name",
            LEASE.1,
            "--lease-duration",
            duration,
            "--renew-deadline",
            deadline,
            "--renew-interval",
            interval,
        ];
        let spec = OperatorSpec {
            log: folder.path().join(format!("{name}.log")),
            program: program.clone(),
            arguments: arguments.map(str::to_owned).to_vec(),
            name,
        };
        OperatorProcess::keep(spec, stop.clone())
    };
    Ok(operators.into_iter().map(start).collect())
}

/// What stands for MySQL.
enum Mysql {
    /// Models, and why.
    Modelled(Mysqls, String),
    /// This mysqld.
    Real(PathBuf, Processes),
}

impl Mysql {
    async fn choose(options: &DemoOptions, folder: &Folder) -> Result<Self, DemoError> {
        if options.modelled {
            return Ok(Self::Modelled(Mysqls::new(0), "as asked for".to_owned()));
        }
        let mysqld = match mysqld::choose(options.mysqld.as_deref()).await? {
            Ok(mysqld) => mysqld,
            Err(why) => return Ok(Self::Modelled(Mysqls::new(0), why)),
        };
        let root = folder.subfolder("n")?;
        let processes = Processes::new(ProcessOptions {
            root: root.clone(),
            mainstay: this_program()?,
            mysqld: mysqld::program(&mysqld, folder)?,
            // Another demo on this machine has another.
            subnet: [127, 77, random::bytes::<1>()[0]],
        });
        let processes = processes.map_err(DemoError::file(root))?;
        Ok(Self::Real(mysqld, processes))
    }

    fn words(&self) -> String {
        match self {
            Self::Modelled(_, why) => format!("modelled in memory ({why})"),
            Self::Real(mysqld, _) => format!("real ({})", mysqld.display()),
        }
    }

    fn cut_words(&self) -> &'static str {
        match self {
            Self::Modelled(..) => "is cut off",
            // The loopback is not to be cut without privileges.
            Self::Real(..) => "stands still (SIGSTOP), as if cut off",
        }
    }

    fn runtime(&self) -> Runtime {
        match self {
            Self::Modelled(mysqls, _) => Runtime::Models(Models::new(mysqls)),
            Self::Real(_, processes) => Runtime::Processes(processes.clone()),
        }
    }

    fn servers(&self, faults: &Arc<Faults>) -> Arc<dyn Servers> {
        match self {
            Self::Modelled(mysqls, _) => {
                let faults = faults.clone();
                let reach = move |pod: &Pod| !faults.is_cut(&pod.metadata.name);
                Arc::new(ModelledServers::new(mysqls.clone(), Arc::new(reach)))
            }
            Self::Real(_, processes) => Arc::new(RealServers::new(processes.clone())),
        }
    }

    fn processes(self) -> Option<Processes> {
        match self {
            Self::Modelled(..) => None,
            Self::Real(_, processes) => Some(processes),
        }
    }
}

fn this_program() -> Result<PathBuf, DemoError> {
    std::env::current_exe().map_err(DemoError::file("this program"))
}
