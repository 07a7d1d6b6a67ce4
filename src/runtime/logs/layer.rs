//! Asks of each warning and error whether it is a repeat.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::lock;
use super::repeats::{Repeats, Summary};

/// A span's field that is another each time.
const RANDOM: &str = "trace";
/// Fields that are sentences, in which numbers may stand.
const SENTENCES: [&str; 3] = ["message", "error", "problem"];

/// The layer that writes, asked for a warning or error once in an interval.
///
/// Not a filter beside it: one that turns a single line down leaves a mark on the thread, by which the
/// next line is lost (tracing-subscriber 0.3).
pub(super) struct Suppress<L> {
    inner: L,
    repeats: Arc<Mutex<Repeats>>,
}

impl<L> Suppress<L> {
    pub(super) fn new(inner: L, repeats: Arc<Mutex<Repeats>>) -> Self {
        Self { inner, repeats }
    }

    /// Whether the line is to be written.
    fn admits<S>(&self, event: &Event<'_>, context: &Context<'_, S>) -> bool
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let metadata = event.metadata();
        // Of the levels the one with more detail is the greater.
        if *metadata.level() > Level::WARN || metadata.target() == module_path!() {
            return true;
        }
        if !lock(&self.repeats).holds() {
            return true;
        }
        // Put together before the lock is taken: a Debug of somebody's runs in there.
        let mut words = Words::default();
        event.record(&mut words);
        let mut hasher = DefaultHasher::new();
        metadata.callsite().hash(&mut hasher);
        words.same.hash(&mut hasher);
        let mut line = words.text;
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(Said(words)) = span.extensions().get::<Said>() {
                words.same.hash(&mut hasher);
                line.push_str(&words.text);
            }
        }
        let (now, key) = (Instant::now(), hasher.finish());
        lock(&self.repeats).admit(now, key, *metadata.level(), line.trim_start())
    }
}

/// What a span says of the lines in it.
struct Said(Words);

impl<S, L> Layer<S> for Suppress<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_layer(&mut self, subscriber: &mut S) {
        self.inner.on_layer(subscriber);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut words = Words::default();
            attributes.record(&mut words);
            span.extensions_mut().insert(Said(words));
        }
        self.inner.on_new_span(attributes, id, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if self.admits(event, &context) {
            self.inner.on_event(event, context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.inner.on_record(id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.inner.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.inner.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.inner.on_close(id, context);
    }
}

/// Writes how often a line was held back. It passes [`Suppress`] by its target.
pub(super) fn write(summary: &Summary) {
    let (times, line) = (summary.times, &summary.line);
    let seconds = summary.within.as_secs();
    let how_often = match times {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    if summary.level == Level::ERROR {
        tracing::error!(times, "repeated {how_often} in {seconds} s: {line}");
    } else {
        tracing::warn!(times, "repeated {how_often} in {seconds} s: {line}");
    }
}

/// The fields of a line or span.
#[derive(Default)]
struct Words {
    /// All of them, for a person.
    text: String,
    /// What makes two the same: numbers and durations left out.
    same: String,
}

impl Words {
    fn add(&mut self, field: &Field, value: &str) {
        let name = field.name();
        if name == RANDOM {
            return;
        }
        // Writing to a String can't fail.
        let _ = if name == "message" {
            write!(self.text, " {value}")
        } else {
            write!(self.text, " {name}={value}")
        };
        if SENTENCES.contains(&name) {
            let _ = write!(self.same, "\0{name}={}", Numberless(value));
        } else if !is_measure(value) {
            let _ = write!(self.same, "\0{name}={value}");
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

/// Whether a value is a number or a duration, or one that may be missing: `3`, `1.5s`, `Some(20ms)`.
fn is_measure(value: &str) -> bool {
    if value == "None" {
        return true;
    }
    let inner = value
        .strip_prefix("Some(")
        .and_then(|rest| rest.strip_suffix(')'));
    let value = inner.unwrap_or(value);
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit.len() < value.len() && matches!(unit, "" | "s" | "ms" | "µs" | "ns")
}

/// A sentence whose words that begin with a digit are one and the same.
struct Numberless<'a>(&'a str);

impl fmt::Display for Numberless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |c: char| c.is_whitespace() || "\"'`()[]{},;=".contains(c);
        for word in self.0.split_inclusive(end) {
            if word.starts_with(|c: char| c.is_ascii_digit()) {
                f.write_str("#")?;
            } else {
                f.write_str(word)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_differ_in_numbers_are_the_same_and_names_are_not() {
        let same = |text| Numberless(text).to_string();
        assert_eq!(
            same("no answer in 3.2s (4 tries, from 10.0.0.1:8443)"),
            same("no answer in 13s (5 tries, from 10.0.0.2:8443)")
        );
        assert_ne!(same("demo-0: refused"), same("demo-1: refused"));
    }

    #[test]
    fn a_measure_is_a_number_with_or_without_a_unit() {
        for measure in ["3", "1.5s", "Some(20ms)", "None", "7.25µs"] {
            assert!(is_measure(measure), "{measure}");
        }
        for name in ["2024-prod/demo", "a", "Some(a)", "", "s", "3 pods"] {
            assert!(!is_measure(name), "{name}");
        }
    }
}
