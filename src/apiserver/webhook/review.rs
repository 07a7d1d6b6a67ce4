//! ConversionReview: what a conversion webhook is asked, and what its answer must be.

use serde_json::{Value, json};

/// The kind of an object, as messages name it.
pub(super) fn kind(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

/// The question.
pub(super) fn request(uid: &str, objects: &[Value], desired: &str) -> Value {
    json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
    })
}

/// The converted objects of an answer. A webhook may change everything but who the object is; of its
/// metadata it may change labels and annotations only.
pub(super) fn read(
    uid: &str,
    objects: &[Value],
    desired: &str,
    answer: &Value,
) -> Result<Vec<Value>, String> {
    let version = answer["apiVersion"].as_str().unwrap_or_default();
    if version != "apiextensions.k8s.io/v1" {
        return Err(format!(
            "invalid response: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {}",
            kind(answer)
        ));
    }
    let response = &answer["response"];
    if response.is_null() {
        return Err("invalid response: no response provided".to_owned());
    }
    if response["uid"] != uid {
        return Err(format!(
            "invalid response: expected response.uid={uid:?}, got {}",
            response["uid"]
        ));
    }
    let result = &response["result"];
    if result["status"] != "Success" {
        let message = result["message"].as_str().unwrap_or_default();
        return Err(if message.is_empty() {
            format!(
                "response.result.status was '{}', not 'Success'",
                result["status"].as_str().unwrap_or_default()
            )
        } else {
            message.to_owned()
        });
    }
    let converted = response["convertedObjects"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if converted.len() != objects.len() {
        return Err(format!(
            "returned {} objects, expected {}",
            converted.len(),
            objects.len()
        ));
    }
    converted
        .into_iter()
        .zip(objects)
        .enumerate()
        .map(|(index, (converted, object))| {
            restore(converted, object, desired)
                .map_err(|problem| format!("invalid converted object at index {index}: {problem}"))
        })
        .collect()
}

fn restore(mut converted: Value, object: &Value, desired: &str) -> Result<Value, String> {
    if converted["apiVersion"] != desired {
        return Err(format!(
            "invalid groupVersion (expected {desired}, received {})",
            converted["apiVersion"]
        ));
    }
    if converted["kind"] != object["kind"] {
        return Err(format!(
            "invalid kind (expected {}, received {})",
            object["kind"], converted["kind"]
        ));
    }
    for field in ["name", "namespace", "uid"] {
        if converted["metadata"][field] != object["metadata"][field] {
            let (old, new) = (&object["metadata"][field], &converted["metadata"][field]);
            return Err(format!("must have the same {field}: {old} != {new}"));
        }
    }
    let mut metadata = object["metadata"].clone();
    for field in ["labels", "annotations"] {
        let new = converted["metadata"][field].clone();
        if let Some(metadata) = metadata.as_object_mut() {
            match new {
                Value::Null => metadata.remove(field),
                new => metadata.insert(field.to_owned(), new),
            };
        }
    }
    converted["metadata"] = metadata;
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: &str) -> Value {
        json!({"apiVersion": format!("g/{version}"), "kind": "K",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"l": version}}})
    }

    fn answer(objects: &Value) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "r", "result": {"status": "Success"}, "convertedObjects": objects}})
    }

    #[test]
    fn metadata_is_the_servers_but_for_labels_and_annotations() {
        let mut converted = object("v2");
        converted["metadata"]["resourceVersion"] = json!("8");
        let read = read("r", &[object("v1")], "g/v2", &answer(&json!([converted]))).unwrap();
        assert_eq!(read[0]["metadata"]["resourceVersion"], "7");
        assert_eq!(read[0]["metadata"]["labels"]["l"], "v2");
    }

    #[test]
    fn nonsense_is_refused() {
        let ask = |answer: &Value| read("r", &[object("v1")], "g/v2", answer).unwrap_err();
        assert!(ask(&answer(&json!([]))).contains("returned 0 objects, expected 1"));
        assert!(ask(&answer(&json!([object("v1")]))).contains("invalid groupVersion"));
        let mut other = object("v2");
        other["metadata"]["name"] = json!("b");
        assert!(ask(&answer(&json!([other]))).contains("must have the same name"));
        let mut failed = answer(&json!([]));
        failed["response"]["result"] = json!({"status": "Failure", "message": "no"});
        assert_eq!(ask(&failed), "no");
    }
}
