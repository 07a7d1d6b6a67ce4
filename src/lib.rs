//! Mainstay: highly available MySQL on Kubernetes, and the operator runtime that it is built on.
//!
//! `client` speaks to an API server, [`runtime`] is an operator's machinery, `api` the custom
//! resources, [`operator`] what keeps them as their specs say, [`instance`] the manager inside each
//! MySQL pod, [`mysql`] what is known of MySQL. [`sync`] is what tasks tell each other by, [`metric`] what a metric is.
//!
//! # An operator of one's own
//!
//! `client` and [`runtime`] know nothing of MySQL. This operator greets everybody who is named in a
//! ConfigMap labelled `greet=yes`:
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc, time::Duration};
//!
//! use mainstay::client::{CONFIG_MAP, Client, ClientOptions, Config, ConfigSource, Patch, Resource};
//! use mainstay::runtime::{
//!     Change, Controller, ControllerOptions, Kind, ListWatch, Meta, ObjectKey, Outcome, Priority,
//!     Queue, ReconcileError, Reconciler, Scope, Shutdown, Store, sources,
//! };
//! use serde_json::{Value, json};
//!
//! /// What is read of a ConfigMap; nothing else is kept in memory.
//! #[derive(serde::Deserialize)]
//! struct Guest {
//!     metadata: Meta,
//!     #[serde(default)]
//!     data: BTreeMap<String, String>,
//! }
//!
//! impl Kind for Guest {
//!     const RESOURCE: Resource = CONFIG_MAP;
//!     fn meta(&self) -> &Meta {
//!         &self.metadata
//!     }
//! }
//!
//! struct Greeter {
//!     client: Client,
//!     guests: Store<Guest>,
//! }
//!
//! impl Reconciler for Greeter {
//!     async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
//!         self.guests.caught_up(key).await; // with what was written here before
//!         let Some(guest) = self.guests.get(key)? else {
//!             return Ok(Outcome::Done); // it is gone
//!         };
//!         let name = guest.data.get("name").map_or("stranger", String::as_str);
//!         let greeting = format!("Hello, {name}!");
//!         if guest.data.get("greeting") == Some(&greeting) {
//!             return Ok(Outcome::Done);
//!         }
//!         let body = json!({"data": {"greeting": greeting}});
//!         let (namespace, patch) = (Some(&*key.namespace), Patch::Merge(&body));
//!         let patched = self.client.patch(CONFIG_MAP, namespace, &key.name, None, patch).await;
//!         let written: Guest = patched?;
//!         let meta = &written.metadata;
//!         self.guests.expect(key, &meta.uid, &meta.resource_version);
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! /// Runs until `shutdown`.
//! async fn greet(client: Client, shutdown: Shutdown) {
//!     let (queue, guests) = (Queue::new("greeter", client.environment()), Store::new());
//!     let woken = queue.clone();
//!     let wake = move |change: Change<Guest>| match change {
//!         Change::Applied { new, .. } => woken.add(new.metadata.key(), Priority::Normal),
//!         Change::Deleted { .. } => {}
//!     };
//!     let scope = Scope {
//!         label_selector: Some("greet=yes".to_owned()),
//!         ..Scope::default()
//!     };
//!     let watch = ListWatch::new(client.clone(), scope, guests.clone(), wake);
//!     let watch = tokio::spawn(watch.run(shutdown.clone()));
//!     guests.synced().await;
//!     // Besides what the watch tells, a look at all of them every ten hours.
//!     let all = guests.clone();
//!     let resync = sources::every(Duration::from_hours(10), move || {
//!         let all = all.list().unwrap_or_default().into_iter();
//!         all.map(|guest| guest.metadata.key())
//!     });
//!     let greeter = Arc::new(Greeter { client, guests });
//!     let controller = Controller::new("greeter", queue, greeter, ControllerOptions::default());
//!     let controller = controller.with_source(resync);
//!     controller.run(shutdown, Duration::from_secs(5)).await;
//!     watch.await.expect("the watch does not panic");
//! }
//! # // Against the API server in memory.
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use mainstay::apiserver::{Access, ApiServer, ApiServerOptions};
//! # let server = ApiServer::new(ApiServerOptions::default());
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let kubeconfig = tempfile::NamedTempFile::new()?;
//! # let access = Access::plain("example").kubeconfig(listener.local_addr()?, "me", "any");
//! # std::fs::write(kubeconfig.path(), access)?;
//! # tokio::spawn(async move { server.serve(listener, None, std::future::pending()).await });
//! # let source = ConfigSource { kubeconfig: Some(kubeconfig.path().to_owned()), context: None };
//! # let client = Client::new(Config::load(&source).await?, ClientOptions::default())?;
//! # let shutdown = Shutdown::new();
//! # let running = tokio::spawn(greet(client.clone(), shutdown.clone()));
//! # let guest = json!({
//! #     "metadata": {"name": "ada", "labels": {"greet": "yes"}},
//! #     "data": {"name": "Ada"},
//! # });
//! # let _: Value = client.create(CONFIG_MAP, Some("default"), &guest).await?;
//! # let greeted = async {
//! #     loop {
//! #         let ada: Value = client.get(CONFIG_MAP, Some("default"), "ada").await?;
//! #         if ada["data"]["greeting"] == "Hello, Ada!" {
//! #             return Ok::<_, mainstay::client::Error>(());
//! #         }
//! #         tokio::time::sleep(Duration::from_millis(10)).await;
//! #     }
//! # };
//! # tokio::time::timeout(Duration::from_secs(30), greeted).await??;
//! # shutdown.trigger();
//! # running.await?;
//! # Ok(())
//! # }
//! ```
//!
//! A whole one, with a child of each object and watches of both, is `benches/peers/operator/`.

pub mod api;
pub mod apiserver;
pub mod cli;
pub mod client;
pub mod instance;
pub mod metric;
pub mod mysql;
pub mod operator;
pub mod runtime;
pub mod sandbox;
pub mod sync;
