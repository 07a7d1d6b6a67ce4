//! What a real kube-apiserver 1.37 did, replayed.
//!
//! `testdata/cases.json` holds cases of steps: a request, the object that it met and the answer. Here
//! the same is done to the same object. What else a server does to an object (metadata, defaults) is
//! taken from the answer; a step marked `defaults` may lack what only the answer has,
//! and `late` names what a server did to a new object after it had recorded its managers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{MergeSchema, Writer, apply, check_merge, json, merge, strategic, track};

#[test]
fn a_real_server_did_the_same() {
    let data: Value = serde_json::from_str(include_str!("testdata/cases.json")).expect("is JSON");
    let mut wrong = Vec::new();
    let mut steps = 0;
    for case in list(&data["cases"]) {
        let (group, kind) = (text(&case["group"]), text(&case["kind"]));
        let schema = |name: &str| match data["schemas"].get(name) {
            Some(schema) => MergeSchema::of_crd(schema),
            None => MergeSchema::builtin(group, kind),
        };
        let mut before = Value::Null;
        for (i, step) in list(&case["steps"]).iter().enumerate() {
            let live = match step.get("live") {
                Some(Value::String(_)) => Some(before.clone()),
                other => other.cloned(),
            };
            steps += 1;
            if let Err(message) = replay(
                step,
                live.as_ref(),
                &schema(step["schema"].as_str().unwrap_or(kind)),
            ) {
                wrong.push(format!("{}, step {i}: {message}", case["name"]));
            }
            if step["answer"]["kind"] != "Status" {
                before = step["answer"].clone();
            }
        }
    }
    assert!(steps > 150, "{steps} steps");
    assert!(
        wrong.is_empty(),
        "{} of {steps} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn replay(step: &Value, live: Option<&Value>, schema: &Arc<MergeSchema>) -> Result<(), String> {
    let (answer, body) = (&step["answer"], &step["body"]);
    let object = live.unwrap_or(if answer["kind"] == "Status" {
        body
    } else {
        answer
    });
    let writer = Writer {
        manager: text(&step["manager"]),
        subresource: text(&step["subresource"]),
        api_version: text(&object["apiVersion"]),
        time: text(&step["now"]),
    };
    let verb = text(&step["verb"]);
    let patched = match verb {
        "create" => {
            let mut new = without_record(answer);
            for path in step["late"].as_array().into_iter().flatten() {
                let operation = json!([{"op": "remove", "path": path}]);
                json(&mut new, &operation).expect("is there");
            }
            track(None, &mut new, writer, schema);
            let record = &new["metadata"]["managedFields"];
            return equal(record, &answer["metadata"]["managedFields"], false);
        }
        "update" => {
            let mut new = answer.clone();
            set_record(&mut new, body["metadata"].get("managedFields"));
            Ok(new)
        }
        "apply" => apply(live, body, writer, step["force"] == true, schema),
        _ => {
            let mut target = live.expect("patched").clone();
            let done = match verb {
                "merge" => check_merge(body).map(|()| merge(&mut target, body)),
                "json" => json(&mut target, body),
                "strategic" => strategic(&mut target, body, schema),
                other => panic!("{other} is no verb"),
            };
            done.map(|()| target)
        }
    };
    let mut patched = match patched {
        Ok(patched) => patched,
        Err(error) => return equal(&sorted(error.status()), &sorted(answer.clone()), false),
    };
    if answer["kind"] == "Status" {
        return Err(format!("is done: {patched}\nbut was refused: {answer}"));
    }
    // The rest of what a server does.
    for name in ["namespace", "uid", "creationTimestamp", "generation"] {
        if let Some(value) = answer["metadata"].get(name) {
            patched["metadata"][name] = value.clone();
        }
    }
    if verb != "apply" {
        schema.complete(&mut patched);
        let defaults = step["defaults"] == true;
        equal(&without_record(&patched), &without_record(answer), defaults)?;
        let given = patched["metadata"].get("managedFields").cloned();
        patched = answer.clone();
        set_record(&mut patched, given.as_ref());
        track(live, &mut patched, writer, schema);
    }
    equal(&patched, answer, step["defaults"] == true)?;
    if step["same"] == true && live != Some(&patched) {
        return Err(format!("changes {live:?}\ninto {patched}"));
    }
    Ok(())
}

/// A refusal with its causes in one order: a real server's is chance where managers are several.
fn sorted(mut status: Value) -> Value {
    if let Some(causes) = status["details"]["causes"].as_array_mut() {
        causes.sort_by_key(|cause| text(&cause["field"]).to_owned());
    }
    status
}

fn without_record(object: &Value) -> Value {
    let mut object = object.clone();
    set_record(&mut object, None);
    object
}

fn set_record(object: &mut Value, list: Option<&Value>) {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    match list {
        Some(list) => metadata.insert("managedFields".to_owned(), list.clone()),
        None => metadata.remove("managedFields"),
    };
}

/// `more`: whether `expected` may have more fields, except in `managedFields`.
fn equal(actual: &Value, expected: &Value, more: bool) -> Result<(), String> {
    let covered = if more {
        actual["metadata"]["managedFields"] == expected["metadata"]["managedFields"]
            && covers(expected, actual)
    } else {
        actual == expected
    };
    if covered {
        Ok(())
    } else {
        Err(format!("is  {actual}\nnot {expected}"))
    }
}

fn covers(more: &Value, less: &Value) -> bool {
    match (more, less) {
        (Value::Object(more), Value::Object(less)) => less
            .iter()
            .all(|(key, less)| more.get(key).is_some_and(|more| covers(more, less))),
        (Value::Array(more), Value::Array(less)) => {
            more.len() == less.len() && more.iter().zip(less).all(|(more, less)| covers(more, less))
        }
        (more, less) => more == less,
    }
}
