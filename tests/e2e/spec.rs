//! Specs that are refused, and specs that can't work until they are fixed.

use serde_json::{Value, json};

use crate::support::{Demo, condition, demo, seconds, tell, text, until};

fn cluster(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "mysql.mainstay.dev/v1",
        "kind": "MySQLCluster",
        "metadata": {"name": name},
        "spec": spec,
    })
    .to_string()
}

#[test]
fn an_invalid_spec_is_refused_with_the_field_named() {
    let Some(demo) = demo() else { return };
    for (spec, field) in [
        (json!({"instances": 0}), "spec.instances"),
        (json!({"instances": 10}), "spec.instances"),
        (json!({"instances": "three"}), "spec.instances"),
        (json!({"storage": {"size": "plenty"}}), "spec.storage.size"),
        (json!({"config": {"server_id": 7}}), "spec.config.server_id"),
        (json!({"nodes": 3}), "spec.nodes"),
    ] {
        let refusal = demo
            .kubectl
            .apply(&cluster("refused", &spec), &["--dry-run=server"]);
        let refusal = refusal.expect_err(&format!("{spec} must be refused"));
        assert!(
            refusal.contains(field),
            "{spec} is refused without naming {field}: {refusal}"
        );
    }
}

/// Waits until the cluster says, with one of `words`, why it is not ready.
#[track_caller]
fn explains(demo: &Demo, name: &str, words: &[&str]) {
    let (message, took) = until(&format!("{name} says what is wrong"), seconds(60), || {
        let cluster = demo.kubectl.get("myc", name)?.ok_or("it is gone")?;
        let ready = condition(&cluster, "Ready").ok_or("no condition Ready")?;
        let told = format!(
            "{} {}: {}",
            text(&ready["status"]),
            text(&ready["reason"]),
            text(&ready["message"])
        );
        let current = ready["observedGeneration"] == cluster["metadata"]["generation"];
        if current
            && text(&ready["status"]) == "False"
            && words.iter().any(|word| told.contains(word))
        {
            Ok(told)
        } else {
            Err(told)
        }
    });
    tell!("{name} says after {:.1} s: {message}", took.as_secs_f64());
}

#[test]
fn a_spec_that_cannot_work_says_why_and_heals_when_it_is_fixed() {
    let Some(demo) = demo() else { return };
    let storage = json!({"size": "1Gi"});
    let change = |spec: &Value| {
        demo.kubectl
            .apply(&cluster("broken", spec), &[])
            .expect("the schema accepts it")
    };
    demo.kubectl
        .must(&["delete", "myc", "broken", "--ignore-not-found"]);

    change(
        &json!({"instances": 1, "storage": storage, "image": "docker.io/library/mysql:there-is-none"}),
    );
    explains(&demo, "broken", &["image", "Image"]);
    change(&json!({"instances": 1, "storage": storage, "config": {"no_such_variable": 1}}));
    explains(&demo, "broken", &["no_such_variable"]);
    change(&json!({"instances": 1, "storage": storage}));
    let ((), took) = until("broken is ready once it is fixed", seconds(90), || {
        let cluster = demo.kubectl.get("myc", "broken")?.ok_or("it is gone")?;
        match text(&cluster["status"]["ready"]) {
            "1/1" => Ok(()),
            _ => Err(format!(
                "{}: {}",
                text(&cluster["status"]["phase"]),
                text(&cluster["status"]["reason"])
            )),
        }
    });
    tell!(
        "broken is ready {:.1} s after it was fixed",
        took.as_secs_f64()
    );
    demo.kubectl.must(&["delete", "myc", "broken"]);
}
