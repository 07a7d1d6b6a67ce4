//! The primary hands over on purpose.

use super::super::view::{Instance, View};
use super::super::{Note, Record};
use super::promotion::begin;
use super::{Decision, Handover, holders};
use crate::api::OperationKind;
use crate::operator::observe::Now;

/// A replica further behind than this (seconds) would keep writes waiting, likely past the deadline of
/// the handover.
const LAG_LIMIT: f64 = 10.0;

/// The primary serves and hands over.
pub(super) fn switchover(
    view: &View<'_>,
    record: &Record,
    primary: &Instance<'_>,
    handover: &Handover<'_>,
    now: Now,
) -> Decision {
    let host = view.host(&primary.name);
    let members = holders(record);
    let unfit = |instance: &Instance<'_>| -> Option<String> {
        let Some(up) = &instance.up else {
            return Some("is not up".into());
        };
        if instance.leaving() || instance.ordinal >= view.wanted {
            return Some("is being removed".into());
        }
        if instance.suspicion().is_some() {
            return Some("has transactions of its own".into());
        }
        if !up.replicates_from(&host) {
            return Some(format!("does not replicate from {}", primary.name));
        }
        let lag = up.replication().and_then(|r| r.lag_seconds);
        if lag.is_some_and(|lag| lag > LAG_LIMIT) {
            return Some("is too far behind".into());
        }
        (!members.contains(instance.name.as_str()))
            .then(|| "may not acknowledge commits yet".into())
    };
    let target = match handover.to {
        Some(name) => match view.named(name) {
            None => Err(format!("{name} is not an instance of this cluster")),
            Some(instance) => match unfit(instance) {
                None => Ok(instance),
                Some(why) => Err(format!("{name} {why}")),
            },
        },
        None => view
            .up()
            .filter(|(i, _)| i.ordinal != primary.ordinal && unfit(i).is_none())
            .max_by_key(|(i, up)| (up.executed.count(), std::cmp::Reverse(i.ordinal)))
            .map(|(i, _)| i)
            .ok_or_else(|| "no replica is fit to take over".to_owned()),
    };
    match target {
        Err(why) => Decision {
            notes: vec![Note::warning(
                "SwitchoverRefused",
                format!("{}: {why}", handover.reason),
            )],
            ..Decision::default()
        },
        Ok(target) => Decision {
            notes: vec![Note::normal(
                "SwitchoverStarted",
                format!(
                    "{} hands over to {}: {}",
                    primary.name, target.name, handover.reason
                ),
            )],
            record: Some(begin(
                view,
                record,
                target,
                OperationKind::Switchover,
                &handover.reason,
                now,
            )),
            ..Decision::default()
        },
    }
}
