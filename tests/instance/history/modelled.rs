//! Modelled instances.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use mainstay::{
    instance::{Command, CommandError, InstanceStatus, Promote, TERM_HEADER},
    sandbox::{InstanceSpec, ModelledInstance, Mysqls, Volume, Written},
};
use tokio::task::JoinHandle;

use super::{Number, World, Wrote};
use crate::harness::TOKEN;

/// Instances in memory, asked over pipes.
pub(crate) struct Modelled {
    pub(crate) mysqls: Mysqls,
    volumes: BTreeMap<Number, Volume>,
    instances: BTreeMap<Number, ModelledInstance>,
}

impl Modelled {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(Mysqls::new(seed))
    }

    pub(crate) fn of(mysqls: Mysqls) -> Self {
        Self {
            mysqls,
            volumes: BTreeMap::new(),
            instances: BTreeMap::new(),
        }
    }

    /// Promotes an instance and opens it.
    pub(crate) async fn promote(&self, number: Number, acks: u32) {
        let required = String::new();
        let promote = Command::Promote(Promote { required, acks });
        for command in [promote, Command::Open] {
            self.command(number, 1, &command).await.unwrap();
        }
    }

    async fn request(
        &self,
        number: Number,
        request: http::request::Builder,
        body: Full<Bytes>,
    ) -> Option<(StatusCode, Bytes)> {
        let instance = self.instances.get(&number)?.clone();
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(async move { instance.serve_stream(theirs).await });
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours))
            .await
            .ok()?;
        tokio::spawn(connection);
        let request = request
            .header(header::HOST, self.host(number))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        let answer = sender
            .send_request(request.body(body).unwrap())
            .await
            .ok()?;
        let code = answer.status();
        Some((code, answer.into_body().collect().await.ok()?.to_bytes()))
    }
}

impl World for Modelled {
    fn host(&self, number: Number) -> String {
        format!("t-{number}")
    }

    fn start(&mut self, number: Number) {
        let volume = self
            .volumes
            .entry(number)
            .or_insert_with(|| Volume::new(&self.mysqls));
        let spec = InstanceSpec {
            name: format!("t-{number}"),
            pod_uid: "uid".to_owned(),
            host: format!("t-{number}"),
            server_id: 1000 + u32::from(number),
            token: TOKEN.to_owned(),
            config: "[mysqld]\n".to_owned(),
            volume: volume.clone(),
        };
        self.instances.insert(number, ModelledInstance::start(spec));
    }

    async fn status(&self, number: Number) -> Option<InstanceStatus> {
        let (_, body) = self
            .request(number, Request::get("/v1/status"), Full::default())
            .await?;
        serde_json::from_slice(&body).ok()
    }

    async fn command(
        &self,
        number: Number,
        term: u64,
        command: &Command,
    ) -> Result<InstanceStatus, CommandError> {
        let body = Full::from(serde_json::to_vec(command).unwrap());
        let request = Request::post("/v1/command").header(TERM_HEADER, term);
        let (code, body) = self
            .request(number, request, body)
            .await
            .expect("an answer");
        if code == StatusCode::OK {
            return Ok(serde_json::from_slice(&body).unwrap());
        }
        Err(serde_json::from_slice(&body).unwrap())
    }

    fn insert(&self, number: Number, row: u64) -> JoinHandle<Wrote> {
        let (mysqls, host) = (self.mysqls.clone(), self.host(number));
        tokio::spawn(async move {
            match mysqls.write(&host, row).await {
                Written::Acknowledged(_) => Wrote::Acknowledged,
                Written::ReadOnly => Wrote::ReadOnly,
                Written::Duplicate => Wrote::Duplicate,
                Written::Unreachable => Wrote::Unreachable,
                Written::Lost => Wrote::Lost,
            }
        })
    }

    async fn insert_errant(&self, number: Number, row: u64) -> Option<()> {
        let written = self.mysqls.write_errant(&self.host(number), row).await;
        written.map(drop)
    }

    async fn create_table(&self, number: Number) {
        self.mysqls.write_ddl(&self.host(number)).await.unwrap();
    }

    async fn purge(&self, number: Number) -> Option<()> {
        self.mysqls.purge(&self.host(number)).await
    }

    async fn hold_applier(&mut self, number: Number, held: bool) {
        self.mysqls.hold_applier(&self.host(number), held);
    }

    fn kill_mysqld(&self, number: Number) {
        self.instances[&number].kill_mysqld();
    }

    fn kill(&mut self, number: Number) {
        self.instances.remove(&number).unwrap().kill();
    }

    fn erase(&mut self, number: Number) {
        self.volumes.remove(&number).unwrap().erase();
    }

    async fn terminate(&mut self, number: Number) -> Option<i32> {
        let instance = self.instances.remove(&number)?;
        instance.terminate();
        Some(instance.ended().await)
    }

    fn freeze(&self, number: Number, frozen: bool) {
        let host = self.host(number);
        if frozen {
            self.mysqls.freeze(&host);
        } else {
            self.mysqls.thaw(&host);
        }
    }

    async fn rows(&self, number: Number) -> Vec<u64> {
        self.mysqls.rows(&self.host(number)).into_keys().collect()
    }
}
