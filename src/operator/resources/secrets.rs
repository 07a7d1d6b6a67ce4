//! The Secrets of a cluster, made where they are missing, completed where they are broken.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::accounts::{MAX_REPLICATION_PASSWORD, password, random, uri};
use super::certificates::{Pair, authority, server};
use super::child::{Child, Context, Ownership, child};
use super::drift::differs;
use super::names::{
    app_secret, ca_secret, internal_secret, read_write_service, root_secret, service_host,
    tls_secret,
};
use super::plain::MYSQL_PORT;
use crate::client::{Environment, SECRET};
use crate::operator::kinds::Secret;

/// Account, and database, of the application.
const APP: &str = "app";
/// Characters of the bearer token.
const TOKEN_LENGTH: usize = 32;

type Data = BTreeMap<&'static str, String>;

/// The Secrets that must be applied, given those that exist, by name, at the
/// `environment`'s time:
/// those that are missing, lack a key, a label or their owner, or hold a certificate that is unsound
/// or has less than a third of its life left.
///
/// A good entry is never changed, and each body holds all our keys, so that an apply removes none.
/// What is derived (address, URI) follows the entries it is derived from. `existing` must be what
/// the API server has: a Secret that is there and not in `existing` would be written over.
#[must_use]
pub fn secrets(
    context: &Context<'_>,
    existing: &BTreeMap<String, Arc<Secret>>,
    environment: &Environment,
) -> Vec<Child> {
    let now = environment.now().as_second();
    let cluster = context.name();
    let find = |name: &str| existing.get(name).map(Arc::as_ref);

    let (ca_name, tls_name) = (ca_secret(cluster), tls_secret(cluster));
    let ca = authority(pair(find(&ca_name), "ca.crt", "ca.key"), cluster, now);
    let tls = pair(find(&tls_name), "tls.crt", "tls.key");
    let tls = server(tls, &ca, cluster, context.namespace(), now);
    let ca_data = Data::from([("ca.crt", ca.certificate.clone()), ("ca.key", ca.key)]);
    let tls_data = Data::from([
        ("ca.crt", ca.certificate),
        ("tls.crt", tls.certificate),
        ("tls.key", tls.key),
    ]);

    let app_name = app_secret(cluster);
    let root_name = root_secret(cluster);
    let internal_name = internal_secret(cluster);
    let app_data = app(context, find(&app_name), environment);
    let root_data = root(find(&root_name), environment);
    let internal_data = internal(find(&internal_name), environment);

    [
        (ca_name, ca_data, Ownership::Owned),
        (tls_name, tls_data, Ownership::Owned),
        (app_name, app_data, Ownership::Survives),
        (root_name, root_data, Ownership::Survives),
        (internal_name, internal_data, Ownership::Survives),
    ]
    .into_iter()
    .filter_map(|(name, data, ownership)| {
        let encoded: Map<String, Value> = data
            .into_iter()
            .map(|(key, value)| (key.to_owned(), STANDARD.encode(value).into()))
            .collect();
        let wanted = child(
            context,
            SECRET,
            &name,
            ownership,
            json!({ "data": encoded }),
        );
        let good =
            find(&name).is_some_and(|live| !differs(&wanted.body, &live.metadata, &body(live)));
        (!good).then_some(wanted)
    })
    .collect()
}

fn app(context: &Context<'_>, live: Option<&Secret>, environment: &Environment) -> Data {
    let username = kept(live, "username", usize::MAX).unwrap_or_else(|| APP.to_owned());
    let password = kept(live, "password", usize::MAX).unwrap_or_else(|| password(environment));
    let database = kept(live, "database", usize::MAX).unwrap_or_else(|| APP.to_owned());
    let host = service_host(&read_write_service(context.name()), context.namespace());
    Data::from([
        (
            "uri",
            uri(&username, &password, &host, MYSQL_PORT, &database),
        ),
        ("username", username),
        ("password", password),
        ("database", database),
        ("host", host),
        ("port", MYSQL_PORT.to_string()),
    ])
}

fn root(live: Option<&Secret>, environment: &Environment) -> Data {
    Data::from([
        ("username", "root".to_owned()),
        (
            "password",
            kept(live, "password", usize::MAX).unwrap_or_else(|| password(environment)),
        ),
    ])
}

fn internal(live: Option<&Secret>, environment: &Environment) -> Data {
    let account =
        |key| kept(live, key, MAX_REPLICATION_PASSWORD).unwrap_or_else(|| password(environment));
    Data::from([
        (
            "token",
            kept(live, "token", usize::MAX).unwrap_or_else(|| random(TOKEN_LENGTH, environment)),
        ),
        ("admin", account("admin")),
        ("replication", account("replication")),
        ("clone", account("clone")),
    ])
}

/// An entry that can be used as it is.
fn kept(live: Option<&Secret>, key: &str, max: usize) -> Option<String> {
    live?
        .text(key)
        .filter(|text| !text.is_empty() && text.len() <= max)
        .map(ToOwned::to_owned)
}

fn pair(live: Option<&Secret>, certificate: &str, key: &str) -> Option<Pair> {
    Some(Pair {
        certificate: kept(live, certificate, usize::MAX)?,
        key: kept(live, key, usize::MAX)?,
    })
}

/// A Secret as it lies in the API server, to be compared.
fn body(live: &Secret) -> Map<String, Value> {
    let data: Map<String, Value> = live
        .data
        .iter()
        .map(|(key, value)| (key.clone(), STANDARD.encode(value).into()))
        .collect();
    Map::from_iter([("data".to_owned(), Value::Object(data))])
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{cluster, context};
    use super::*;
    use jiff::Timestamp;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Another password each time, always at the same hour.
    fn environment() -> Environment {
        static SEED: AtomicU64 = AtomicU64::new(0);
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Environment::seeded(SEED.fetch_add(1, Ordering::Relaxed), Arc::new(move || now))
    }

    type Existing = BTreeMap<String, Arc<Secret>>;

    fn run(existing: &Existing) -> Vec<Child> {
        secrets(&context(&cluster(&json!({}))), existing, &environment())
    }

    fn store(existing: &mut Existing, children: Vec<Child>) {
        for child in children {
            let secret: Secret = serde_json::from_value(child.body).unwrap();
            existing.insert(child.name, Arc::new(secret));
        }
    }

    fn complete() -> Existing {
        let mut existing = Existing::new();
        store(&mut existing, run(&Existing::new()));
        existing
    }

    fn edit(existing: &mut Existing, name: &str, edit: impl FnOnce(&mut Secret)) {
        let mut secret = Secret::clone(&existing[name]);
        edit(&mut secret);
        existing.insert(name.to_owned(), Arc::new(secret));
    }

    fn names(children: &[Child]) -> Vec<&str> {
        children.iter().map(|child| child.name.as_str()).collect()
    }

    #[test]
    fn all_are_made_once_and_then_left_alone() {
        let existing = complete();
        let names: Vec<_> = existing.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "demo-app",
                "demo-ca",
                "demo-internal",
                "demo-root",
                "demo-tls"
            ]
        );
        assert_eq!(run(&existing), []);
        let app = &existing["demo-app"];
        let password = app.text("password").unwrap();
        assert_eq!(app.text("host"), Some("demo-rw.shop.svc"));
        assert_eq!(app.text("port"), Some("3306"));
        assert_eq!(
            app.text("uri").unwrap(),
            format!("mysql://app:{password}@demo-rw.shop.svc:3306/app")
        );
        assert!(existing["demo-internal"].text("replication").unwrap().len() <= 32);
    }

    #[test]
    fn accounts_survive_their_cluster_and_certificates_do_not() {
        for child in run(&Existing::new()) {
            let owned = child.body["metadata"].get("ownerReferences").is_some();
            assert_eq!(
                owned,
                ["demo-ca", "demo-tls"].contains(&child.name.as_str()),
                "{}",
                child.name
            );
        }
    }

    #[test]
    fn a_missing_key_is_filled_in_and_the_others_stay() {
        let mut existing = complete();
        edit(&mut existing, "demo-internal", |secret| {
            secret.data.remove("clone");
        });
        let made = run(&existing);
        assert_eq!(names(&made), ["demo-internal"]);
        let before = existing["demo-internal"].clone();
        store(&mut existing, made);
        let after = &existing["demo-internal"];
        assert!(after.text("clone").is_some());
        for key in ["token", "admin", "replication"] {
            assert_eq!(after.text(key), before.text(key), "{key}");
        }
    }

    #[test]
    fn a_password_that_a_person_sets_is_kept_and_the_uri_follows_it() {
        let mut existing = complete();
        edit(&mut existing, "demo-app", |secret| {
            secret
                .data
                .insert("password".to_owned(), b"s3cret/".to_vec());
        });
        let made = run(&existing);
        store(&mut existing, made);
        let app = &existing["demo-app"];
        assert_eq!(app.text("password"), Some("s3cret/"));
        assert_eq!(
            app.text("uri"),
            Some("mysql://app:s3cret%2F@demo-rw.shop.svc:3306/app")
        );
    }

    #[test]
    fn a_password_that_replication_can_not_use_is_replaced() {
        let mut existing = complete();
        edit(&mut existing, "demo-internal", |secret| {
            secret.data.insert("replication".to_owned(), vec![b'x'; 33]);
        });
        let made = run(&existing);
        store(&mut existing, made);
        assert!(existing["demo-internal"].text("replication").unwrap().len() <= 32);
    }

    #[test]
    fn a_lost_authority_takes_its_certificate_along() {
        let mut existing = complete();
        existing.remove("demo-ca");
        assert_eq!(names(&run(&existing)), ["demo-ca", "demo-tls"]);
    }

    #[test]
    fn secrets_are_adopted_and_certificates_get_the_new_owner() {
        let existing = complete();
        let mut reborn = cluster(&json!({}));
        reborn.metadata.uid = "u-2".into();
        let made = secrets(&context(&reborn), &existing, &environment());
        assert_eq!(names(&made), ["demo-ca", "demo-tls"]);
        assert_eq!(made[0].body["metadata"]["ownerReferences"][0]["uid"], "u-2");
    }
}
