//! The simulation.

mod clock;
mod history;
mod network;
mod run;

use std::sync::Arc;
use std::time::Duration;

use mainstay::apiserver::{ApiServer, ApiServerOptions};
use mainstay::client::{Client, ClientOptions, Config, Dial, Environment, Jitter, Stream};
use mainstay::operator::{Operator, Options};
use mainstay::runtime::{ElectionOptions, Health, Shutdown};
use network::{Network, Party};

struct Way(Network, Party);
impl Dial for Way {
    fn dial(
        &self,
        _: http::Uri,
    ) -> futures_util::future::BoxFuture<'static, std::io::Result<Box<dyn Stream>>> {
        let (n, p) = (self.0.clone(), self.1.clone());
        Box::pin(
            async move { Ok(Box::new(n.connect(&p, &"api".into()).await?) as Box<dyn Stream>) },
        )
    }
}

#[test]
fn smoke() {
    for _ in 0..2 {
        let began = std::time::Instant::now();
        let o = run::run(|| async {
            let clock = clock::Clock::new(tokio::time::Instant::now());
            let network = Network::new(Jitter::seeded(1));
            let api = ApiServer::new(ApiServerOptions {
                clock: clock.reader(),
                seed: 1,
                audit: 10000,
                ..Default::default()
            });
            let server = api.clone();
            network.serve(
                &"api".into(),
                Arc::new(move |socket, _| {
                    let s = server.clone();
                    tokio::spawn(async move { s.serve_stream(socket).await });
                }),
            );
            let client = |name: &str, seed| {
                let options = ClientOptions {
                    user_agent: name.into(),
                    environment: Environment::seeded(seed, clock.reader()),
                    ..Default::default()
                };
                Client::with_dial(
                    Config::without_credentials("http://api"),
                    options,
                    Arc::new(Way(network.clone(), name.into())),
                )
                .unwrap()
            };
            let user = client("user", 1);
            let crd = mainstay::client::Resource {
                group: "apiextensions.k8s.io",
                version: "v1",
                kind: "CustomResourceDefinition",
                plural: "customresourcedefinitions",
                namespaced: false,
            };
            let body = serde_json::to_value(mainstay::api::crd::definition()).unwrap();
            let _: serde_json::Value = user.create(crd, None, &body).await.unwrap();
            let cluster = serde_json::json!({"apiVersion":"mysql.mainstay.dev/v1","kind":"MySQLCluster","metadata":{"name":"demo","namespace":"default"},"spec":{"instances":3}});
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _: serde_json::Value = user
                .create(mainstay::api::MYSQL_CLUSTER, Some("default"), &cluster)
                .await
                .unwrap();
            for (i, name) in ["operator-a", "operator-b"].iter().enumerate() {
                let c = client(name, 10 + i as u64);
                let op = Operator::new(
                    c,
                    Options {
                        namespace: None,
                        workers: 2,
                        election: ElectionOptions::new("default", "mainstay", name),
                        shutdown_grace: Duration::from_secs(5),
                        instance_access: Default::default(),
                        operator_image: "x".into(),
                    },
                    &Health::new(),
                )
                .unwrap();
                tokio::spawn(op.run(Shutdown::new()));
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            let mut out = run::Outcome::default();
            for e in api.audit(0) {
                if e.wrote {
                    out.history += &format!(
                        "{} {} {} {} {}/{} {}\n",
                        e.at, e.client, e.verb, e.resource, e.namespace, e.name, e.code
                    );
                }
            }
            out.digest = network.digest();
            out
        });
        println!(
            "{} {:?} {:?} {:?}",
            o.history.lines().count(),
            o.broken,
            o.digest,
            began.elapsed()
        );
        std::fs::write("/tmp/h.txt", &o.history).unwrap();
    }
}
