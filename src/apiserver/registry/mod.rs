//! The built-in resources: a table, and what the object logic needs to know of each.

mod fields;
mod rows;

pub(crate) use fields::selectable;

use super::{ResourceInfo, ScaleInfo};

/// What tells one built-in resource from another, beside its description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "a table of independent traits, one column each"
)]
pub(crate) struct Traits {
    /// Nothing is stored: a POST is answered (`selfsubjectaccessreviews`).
    pub(crate) create_only: bool,
    /// `metadata.generation` is kept.
    pub(crate) generation: bool,
    /// A PUT may leave the resource version out.
    pub(crate) unconditional_update: bool,
    /// A PUT creates what is not there.
    pub(crate) create_on_update: bool,
    /// Names are checked as DNS labels, not subdomains.
    pub(crate) label_names: bool,
    /// Names only have to fit into a path (RBAC).
    pub(crate) path_names: bool,
    /// `status` is a subresource that stays out of writes to the object, and the other way round.
    pub(crate) status: bool,
    /// A deletion answers with the object, not a `Status`.
    pub(crate) returns_deleted: bool,
}

/// A built-in resource.
#[derive(Clone, Debug)]
pub(crate) struct Builtin {
    pub(crate) info: ResourceInfo,
    /// Group and resource whose objects these are; differs from `info` only for `events.k8s.io`.
    pub(crate) storage: String,
    pub(crate) traits: Traits,
}

/// All of them.
pub(crate) fn builtin() -> Vec<Builtin> {
    rows::ROWS.iter().map(Row::build).collect()
}

/// `pods`, `deployments.apps`: a resource without its version.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// One line of the table.
#[derive(Clone, Copy)]
struct Row {
    /// `v1` or `group/version`.
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// Short names, separated by commas.
    short: &'static str,
    /// One letter a trait, see [`rows`].
    flags: &'static str,
    /// Subresources with their kinds: `log=Pod,eviction=Eviction`.
    subresources: &'static str,
}

impl Row {
    fn build(&self) -> Builtin {
        let (group, version) = self
            .api_version
            .rsplit_once('/')
            .unwrap_or(("", self.api_version));
        let has = |flag: char| self.flags.contains(flag);
        let list = |text: &str| -> Vec<String> {
            text.split(',')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let scale = has('S').then(|| ScaleInfo {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".status.selector".to_owned()),
        });
        let info = ResourceInfo {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: list(self.short),
            categories: [('a', "all"), ('x', "api-extensions")]
                .into_iter()
                .filter(|(flag, _)| has(*flag))
                .map(|(_, category)| category.to_owned())
                .collect(),
            namespaced: has('n'),
            status: has('s'),
            scale,
            subresources: list(self.subresources)
                .iter()
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
                .collect(),
            stored_in: (self.plural == "events").then(|| (String::new(), "v1".to_owned())),
            columns: Vec::new(),
        };
        let storage = if self.plural == "events" {
            "events".to_owned()
        } else {
            qualified(self.plural, group)
        };
        let traits = Traits {
            create_only: has('c'),
            generation: has('g'),
            unconditional_update: !has('r'),
            create_on_update: has('u'),
            label_names: has('l'),
            path_names: has('p'),
            status: has('s'),
            returns_deleted: has('d'),
        };
        Builtin {
            info,
            storage,
            traits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_a_resource_of_its_own() {
        let mut seen = BTreeSet::new();
        for builtin in builtin() {
            let info = &builtin.info;
            assert!(
                seen.insert((
                    info.group.clone(),
                    info.version.clone(),
                    info.plural.clone()
                )),
                "{} is there twice",
                info.plural
            );
            assert_eq!(builtin.traits.status, info.status);
        }
        assert!(seen.len() > 40);
    }

    #[test]
    fn events_of_both_groups_are_stored_once() {
        let storages: Vec<_> = builtin()
            .into_iter()
            .filter(|builtin| builtin.info.plural == "events")
            .map(|builtin| builtin.storage)
            .collect();
        assert_eq!(storages, ["events", "events"]);
    }
}
