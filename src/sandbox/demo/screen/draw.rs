//! What the screen shows of a snapshot.

use super::line::{Line, Style};
use crate::sandbox::demo::snapshot::{InstanceView, Lag, ReplicaView, Snapshot};
use crate::sandbox::demo::text::{age, count, gtid, seconds};

/// The keys, and what they do.
const KEYS: [(&str, &str); 11] = [
    ("p", "kill primary"),
    ("P", "delete its pod"),
    ("l", "kill leader"),
    ("c", "cut primary"),
    ("h", "heal"),
    ("s", "slow API"),
    ("w", "writes"),
    ("o", "switchover"),
    ("+", "scale out"),
    ("-", "scale in"),
    ("q", "quit"),
];
/// GTID sets are cut to this: the latest numbers of three servers fit.
const GTID_WIDTH: usize = 34;

/// The lines of a screen of this size, at most `height` of them, each at most `width` wide. The keys
/// are always there; Events give way first, then what stands above the keys from below.
#[must_use]
pub(crate) fn draw(snapshot: &Snapshot, width: u16, height: u16) -> Vec<Line> {
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = vec![title(snapshot)];
    lines.extend(cluster(snapshot));
    lines.extend(instances(snapshot));
    lines.extend(replicas(snapshot));
    lines.extend(figures(snapshot));
    let mut last = keys(width);
    if !snapshot.message.is_empty() {
        last.insert(
            0,
            line()
                .with("» ", Style::Faint)
                .with(&snapshot.message, Style::Strong),
        );
    }
    last.truncate(height.max(1));
    let room = height.saturating_sub(last.len());
    lines.extend(events(snapshot, room.saturating_sub(lines.len())));
    lines.resize(room, Line::default());
    lines.extend(last);
    lines.into_iter().map(|line| line.clipped(width)).collect()
}

fn line() -> Line {
    Line::default()
}

fn title(snapshot: &Snapshot) -> Line {
    line()
        .with("mainstay demo", Style::Strong)
        .with(&format!("  {}  MySQL ", age(snapshot.age)), Style::Faint)
        .with(&snapshot.cluster.version, Style::Plain)
        .with(
            if snapshot.cluster.version.is_empty() {
                "is "
            } else {
                " is "
            },
            Style::Faint,
        )
        .with(&snapshot.mysql, Style::Plain)
        .with("  --kubeconfig ", Style::Faint)
        .with(&snapshot.kubeconfig.to_string_lossy(), Style::Plain)
}

fn cluster(snapshot: &Snapshot) -> Vec<Line> {
    let cluster = &snapshot.cluster;
    let style = match cluster.phase.as_str() {
        "Running" => Style::Good,
        "Unavailable" => Style::Bad,
        _ => Style::Warn,
    };
    let or_none = |text: &str| if text.is_empty() { "none" } else { text }.to_owned();
    let mut first = line()
        .with("CLUSTER  ", Style::Faint)
        .with(&or_none(&cluster.name), Style::Strong)
        .with("  ", Style::Plain)
        .with(&cluster.phase, style)
        .with(&format!(" {}", cluster.ready), style)
        .with("  primary ", Style::Faint)
        .with(&or_none(&cluster.primary), Style::Strong);
    if !cluster.target.is_empty() {
        first = first.with(&format!(" → {}", cluster.target), Style::Warn);
    }
    if !cluster.quorum.is_empty() {
        first = first
            .with("  quorum ", Style::Faint)
            .with(&cluster.quorum, Style::Plain);
    }
    let mut second = line().with("         ", Style::Plain);
    if !cluster.operation.is_empty() {
        second = second.with(&format!("{}  ", cluster.operation), Style::Warn);
    }
    vec![
        Line::default(),
        first,
        second.with(&cluster.reason, Style::Plain),
    ]
}

fn instances(snapshot: &Snapshot) -> Vec<Line> {
    let rows: Vec<_> = snapshot.instances.iter().map(Row::of).collect();
    let name = widest(rows.iter().map(|row| row.pod.as_str()), "INSTANCE");
    let sets = widest(rows.iter().map(|row| row.gtid.as_str()), "GTID").min(GTID_WIDTH);
    let mut lines = vec![
        Line::default(),
        line()
            .column("INSTANCE", name, Style::Faint)
            .column("ROLE", 7, Style::Faint)
            .column("READY", 5, Style::Faint)
            .column("GTID", sets, Style::Faint)
            .column("LAG", 8, Style::Faint)
            .with("STATE", Style::Faint),
    ];
    lines.extend(rows.into_iter().map(|row| {
        line()
            .column(&row.pod, name, Style::Strong)
            .column(&row.role, 7, row.role_style)
            .column(row.ready.0, 5, row.ready.1)
            .column(&row.gtid, sets, Style::Plain)
            .column(&row.lag.0, 8, row.lag.1)
            .with(&row.state.0, row.state.1)
    }));
    lines
}

struct Row {
    pod: String,
    role: String,
    role_style: Style,
    ready: (&'static str, Style),
    gtid: String,
    lag: (String, Style),
    state: (String, Style),
}

impl Row {
    fn of(instance: &InstanceView) -> Self {
        let unknown = || ("-".to_owned(), Style::Faint);
        let lag = match instance.lag {
            _ if instance.role == "primary" => unknown(),
            None => unknown(),
            Some(Lag {
                transactions: 0, ..
            }) => ("0".to_owned(), Style::Plain),
            Some(Lag {
                transactions,
                seconds,
            }) => {
                let seconds = seconds.filter(|s| *s >= 1.0);
                let seconds = seconds.map_or(String::new(), |s| format!(" {s:.0}s"));
                (format!("{}{seconds}", count(transactions)), Style::Warn)
            }
        };
        let state = match (instance.heard, instance.state.as_str()) {
            (true, state) => (state.to_owned(), Style::Plain),
            (false, "") => ("not heard".to_owned(), Style::Bad),
            (false, state) => (format!("not heard: {state}"), Style::Bad),
        };
        Self {
            pod: instance.pod.clone(),
            role: or_dash(&instance.role),
            role_style: if instance.role == "primary" {
                Style::Good
            } else {
                Style::Plain
            },
            ready: if instance.ready {
                ("yes", Style::Good)
            } else {
                ("no", Style::Warn)
            },
            gtid: or_dash(&gtid(&instance.gtid)),
            lag,
            state,
        }
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>, heading: &str) -> usize {
    let widths = texts.map(|text| text.chars().count());
    widths.chain([heading.len()]).max().unwrap_or_default()
}

fn replicas(snapshot: &Snapshot) -> Vec<Line> {
    let name = widest(
        snapshot.replicas.iter().map(|r| r.name.as_str()),
        "OPERATOR",
    );
    let mut lines = vec![
        Line::default(),
        line()
            .column("OPERATOR", name, Style::Faint)
            .column("ROLE", 7, Style::Faint)
            .column("TERM", 5, Style::Faint)
            .column("PID", 8, Style::Faint)
            .with("AGE", Style::Faint),
    ];
    lines.extend(snapshot.replicas.iter().map(|replica| {
        let ReplicaView { pid, term, why, .. } = replica;
        let (role, style) = match (pid, replica.leads) {
            (None, _) => ("down", Style::Bad),
            (Some(_), true) => ("leader", Style::Good),
            (Some(_), false) => ("standby", Style::Plain),
        };
        let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        line()
            .column(&replica.name, name, Style::Strong)
            .column(role, 7, style)
            .column(&number(*term), 5, Style::Plain)
            .column(&number(pid.map(u64::from)), 8, Style::Plain)
            .column(&age(replica.age), 6, Style::Plain)
            .with(why, Style::Bad)
    }));
    if snapshot.leader().is_none() {
        let holder = match snapshot.lease_holder.as_str() {
            "" => "nobody holds the Lease".to_owned(),
            gone => format!("nobody leads; the Lease is still {gone}'s"),
        };
        lines.push(line().with(&holder, Style::Warn));
    }
    lines
}

fn figures(snapshot: &Snapshot) -> Vec<Line> {
    let rates = &snapshot.rates;
    let mut writes = line().with("WRITES   ", Style::Faint);
    writes = if rates.writing {
        let still = rates.pause.filter(|pause| pause.as_millis() >= 500);
        match still {
            None => writes.with(&format!("{:.0}/s", rates.writes), Style::Good),
            Some(pause) => writes.with(&format!("none for {}", seconds(pause)), Style::Bad),
        }
    } else {
        writes.with("off", Style::Faint)
    };
    writes = writes
        .with("  acknowledged ", Style::Faint)
        .with(&count(rates.acknowledged), Style::Plain)
        .with("  longest pause ", Style::Faint)
        .with(&rates.longest.map_or("-".to_owned(), seconds), Style::Plain)
        .with("  lost ", Style::Faint);
    writes = match rates.lost {
        None => writes.with("-", Style::Faint),
        Some(0) => writes.with("0", Style::Good),
        Some(lost) => writes.with(&count(lost), Style::Bad),
    };
    writes = writes
        .with("  API ", Style::Faint)
        .with(&format!("{:.0} requests/s", rates.requests), Style::Plain);
    let mut lines = vec![Line::default(), writes];
    if !snapshot.faults.is_empty() {
        let faults = snapshot.faults.join(" · ");
        lines.push(
            line()
                .with("FAULTS   ", Style::Faint)
                .with(&faults, Style::Bad),
        );
    }
    lines
}

/// At most `room` lines.
fn events(snapshot: &Snapshot, room: usize) -> Vec<Line> {
    if room < 3 || snapshot.events.is_empty() {
        return Vec::new();
    }
    let shown = &snapshot.events[..snapshot.events.len().min(room - 2)];
    let reason = widest(shown.iter().map(|event| event.reason.as_str()), "EVENT");
    let about = widest(shown.iter().map(|event| event.about.as_str()), "ABOUT");
    let mut lines = vec![
        Line::default(),
        line()
            .column("AGE", 6, Style::Faint)
            .column("EVENT", reason, Style::Faint)
            .with("ABOUT", Style::Faint),
    ];
    lines.extend(shown.iter().map(|event| {
        let times = if event.count > 1 {
            format!(" (×{})", event.count)
        } else {
            String::new()
        };
        let style = if event.warning {
            Style::Warn
        } else {
            Style::Plain
        };
        line()
            .column(&age(event.age), 6, Style::Faint)
            .column(&event.reason, reason, style)
            .column(&event.about, about, Style::Strong)
            .with(&event.note, Style::Plain)
            .with(&times, Style::Faint)
    }));
    lines
}

/// The keys, on as many lines as they need.
fn keys(width: usize) -> Vec<Line> {
    let mut lines = vec![line()];
    for (key, what) in KEYS {
        let more = key.len() + what.len() + 3;
        let last = lines.last_mut().expect("one was there from the start");
        if last.width() > 0 && last.width() + more > width + 2 {
            lines.push(line());
        }
        let last = lines.last_mut().expect("one was there from the start");
        *last = std::mem::take(last)
            .with(key, Style::Key)
            .with(&format!(" {what}  "), Style::Plain);
    }
    lines
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
