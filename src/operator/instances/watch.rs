//! The standing watch on one instance manager.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::transport::Line;
use crate::instance::InstanceStatus;
use crate::runtime::ObjectKey;

/// Managers speak at least each second; three missed are a lost voice.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);
/// First and longest pause between attempts: short, since a failover may wait for this voice.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// A status line longer than this is not one.
const LINE_LIMIT: usize = 4 << 20;

/// Listens until aborted.
pub(super) async fn run(shared: Arc<Shared>, pod: ObjectKey, line: Arc<Line>) {
    let mut pause = RETRY.0;
    loop {
        let started = tokio::time::Instant::now();
        let error = listen(&shared, &line).await;
        tracing::debug!(%pod, %error, "instance is not heard");
        shared.lost(&line, error);
        if started.elapsed() > RETRY.1 {
            pause = RETRY.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

/// One connection; returns why it ended.
async fn listen(shared: &Shared, line: &Arc<Line>) -> String {
    // Boxed: it is large, and gone as soon as the watch begins, which is to last.
    let mut body = match Box::pin(line.watch(&shared.client)).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        let chunk = match tokio::time::timeout(SILENCE_LIMIT, body.chunk()).await {
            Err(_) => return format!("silent for {SILENCE_LIMIT:?}"),
            Ok(None) => return "the connection ended".into(),
            Ok(Some(Err(error))) => return error,
            Ok(Some(Ok(chunk))) => chunk,
        };
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|&b| b == b'\n') {
            let frame: Vec<u8> = buffer.drain(..=end).collect();
            match serde_json::from_slice::<InstanceStatus>(&frame) {
                Ok(status) => shared.heard(line, status, None),
                Err(error) => return format!("speaks another language: {error}"),
            }
        }
        if buffer.len() > LINE_LIMIT {
            return format!("sent a line of more than {LINE_LIMIT} bytes");
        }
    }
}
