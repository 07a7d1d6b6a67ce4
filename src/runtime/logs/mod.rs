//! Logs: their format, a filter that can be changed while the process runs, and no flood of repeats.
//!
//! It promises that each line of a reconcile names its object, whatever the filter; that a filter that
//! can't be read changes nothing; and that a warning or error that repeats is counted, not lost.

mod endpoint;
mod layer;
mod repeats;

use std::fs::File;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::shutdown::Shutdown;
pub(super) use endpoint::answer;
use layer::Suppress;
use repeats::Repeats;

/// How often the counts of repeats are looked at: a summary comes so much after its time at most.
const LOOK: Duration = Duration::from_secs(1);
/// What a filter that can't be read is replaced by, where there is no other.
const FALLBACK: &str = "info";

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people: one compact line.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Changes the filter of the log, and sums up what repeats. Clones share it.
#[derive(Clone, Debug)]
pub struct LogControl {
    handle: reload::Handle<EnvFilter, Registry>,
    filter: Arc<Mutex<String>>,
    repeats: Arc<Mutex<Repeats>>,
}

impl LogControl {
    /// The filter that holds.
    #[must_use]
    pub fn filter(&self) -> String {
        lock(&self.filter).clone()
    }

    /// Changes the filter.
    ///
    /// # Errors
    /// When it can't be read, and says why: the one before stays.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        let parsed = parse(filter)?;
        // Held over both, so that what is told is what holds.
        let mut told = lock(&self.filter);
        self.handle
            .reload(parsed)
            .map_err(|error| error.to_string())?;
        filter.clone_into(&mut told);
        Ok(())
    }

    /// Writes how often what was held back has repeated, until shutdown.
    pub async fn summarise(&self, shutdown: Shutdown) {
        loop {
            let over = tokio::select! {
                biased;
                () = shutdown.triggered() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            let now = Instant::now();
            let summaries = if over {
                lock(&self.repeats).take_all(now)
            } else {
                lock(&self.repeats).take_due(now)
            };
            // Outside the lock: writing comes by here again.
            summaries.iter().for_each(layer::write);
            if over {
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    if filter.trim().is_empty() {
        return Err("the log filter is empty; write off for no lines at all".to_owned());
    }
    EnvFilter::try_new(filter).map_err(|error| {
        format!("{filter:?} is no log filter such as info or info,mainstay=debug: {error}")
    })
}

/// Whether a filter can be read.
///
/// # Errors
/// What is wrong with it.
pub fn check_filter(filter: &str) -> Result<(), String> {
    parse(filter).map(|_| ())
}

/// Starts logging to stderr what `filter` lets through, such as `info,mainstay::runtime=debug`; `info`
/// where it can't be read. What repeats within `repeats` is held back, if that is not zero, and
/// [`LogControl::summarise`] tells its count. A second call changes nothing.
pub fn init_tracing(format: LogFormat, filter: &str, repeats: Duration) -> LogControl {
    let (filter, complaint) = match parse(filter) {
        Ok(_) => (filter, None),
        Err(error) => (FALLBACK, Some(error)),
    };
    let ansi = std::io::stderr().is_terminal();
    let (subscriber, control) = subscriber(format, filter, repeats, std::io::stderr, ansi);
    // An error means that a subscriber is there already, as in tests: it stays.
    let _ = subscriber.try_init();
    if let Some(error) = complaint {
        tracing::warn!(error, "the log filter can't be read; using info");
    }
    control
}

/// Starts logging to `file`, one compact line an entry, what `filter` lets through; `info` where it
/// can't be read. For a process whose terminal shows something else. A second call does nothing.
pub fn log_to_file(file: File, filter: &str) {
    let filter = parse(filter).map_or(FALLBACK, |_| filter);
    let (format, writer) = (LogFormat::Text, Arc::new(file));
    let (subscriber, _control) = subscriber(format, filter, Duration::ZERO, writer, false);
    // An error means that a subscriber is there already, as in tests: it stays.
    let _ = subscriber.try_init();
}

/// What takes the process's lines: one that is not installed yet.
pub(super) fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    repeats: Duration,
    writer: W,
    ansi: bool,
) -> (impl Subscriber + Send + Sync, LogControl)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (env, handle) = reload::Layer::new(EnvFilter::new(filter));
    let control = LogControl {
        handle,
        filter: Arc::new(Mutex::new(filter.to_owned())),
        repeats: Arc::new(Mutex::new(Repeats::new(repeats))),
    };
    let lines = fmt::layer().with_writer(writer);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.compact().with_ansi(ansi).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    // Our spans of the highest level name the object that lines are about: no filter may take them away
    // from a line that it lets through.
    let spans = |metadata: &Metadata<'_>| {
        metadata.is_span()
            && *metadata.level() == Level::ERROR
            && metadata.target().starts_with(env!("CARGO_PKG_NAME"))
    };
    let spans = filter_fn(spans).with_max_level_hint(LevelFilter::ERROR);
    let lines = Suppress::new(lines, Arc::clone(&control.repeats));
    let lines = lines.with_filter(env.or(spans));
    (tracing_subscriber::registry().with(lines), control)
}

#[cfg(test)]
mod tests;
