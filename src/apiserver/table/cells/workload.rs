//! What runs pods.

use serde_json::{Value, json};

use super::{
    Printed, age, containers, int_or_string, labels, list, requirements, selector, str_of,
};

pub(super) fn pod_template(it: Printed<'_>) -> Vec<Value> {
    let [names, images] = containers(it.at("/template/spec/containers"));
    let labels = labels(it.at("/template/metadata/labels"));
    vec![it.name(), names, images, json!(labels)]
}

/// The last columns of what has a template: containers, images, selector.
fn template(it: Printed<'_>, selected: &str) -> [Value; 3] {
    let [names, images] = containers(it.at("/spec/template/spec/containers"));
    [names, images, json!(selected)]
}

pub(super) fn replication_controller(it: Printed<'_>) -> Vec<Value> {
    let mut cells = replicas(it);
    cells.extend(template(it, &labels(it.at("/spec/selector"))));
    cells
}

pub(super) fn replica_set(it: Printed<'_>) -> Vec<Value> {
    let mut cells = replicas(it);
    cells.extend(template(it, &selector(it.at("/spec/selector"))));
    cells
}

fn replicas(it: Printed<'_>) -> Vec<Value> {
    vec![
        it.name(),
        it.number("/spec/replicas"),
        it.number("/status/replicas"),
        it.number("/status/readyReplicas"),
        it.age(),
    ]
}

fn ready(it: Printed<'_>) -> Value {
    let (ready, wanted) = (
        it.integer("/status/readyReplicas"),
        it.integer("/spec/replicas"),
    );
    json!(format!("{ready}/{wanted}"))
}

pub(super) fn deployment(it: Printed<'_>) -> Vec<Value> {
    let mut cells = vec![
        it.name(),
        ready(it),
        it.number("/status/updatedReplicas"),
        it.number("/status/availableReplicas"),
        it.age(),
    ];
    cells.extend(template(it, &requirements(it.at("/spec/selector"))));
    cells
}

pub(super) fn stateful_set(it: Printed<'_>) -> Vec<Value> {
    let [names, images] = containers(it.at("/spec/template/spec/containers"));
    vec![it.name(), ready(it), it.age(), names, images]
}

pub(super) fn daemon_set(it: Printed<'_>) -> Vec<Value> {
    let mut cells = vec![it.name()];
    cells.extend(
        [
            "/status/desiredNumberScheduled",
            "/status/currentNumberScheduled",
            "/status/numberReady",
            "/status/updatedNumberScheduled",
            "/status/numberAvailable",
        ]
        .map(|pointer| it.number(pointer)),
    );
    cells.push(json!(labels(it.at("/spec/template/spec/nodeSelector"))));
    cells.push(it.age());
    cells.extend(template(it, &selector(it.at("/spec/selector"))));
    cells
}

pub(super) fn controller_revision(it: Printed<'_>) -> Vec<Value> {
    let owners = it.list("/metadata/ownerReferences");
    let controller = owners.iter().find(|owner| owner["controller"] == true);
    let controller = controller.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let group = str_of(owner, "apiVersion")
                .split_once('/')
                .map(|(group, _)| group);
            let kind = str_of(owner, "kind").to_lowercase();
            let kind = group.map_or(kind.clone(), |group| format!("{kind}.{group}"));
            format!("{kind}/{}", str_of(owner, "name"))
        },
    );
    vec![
        it.name(),
        json!(controller),
        it.number("/revision"),
        it.age(),
    ]
}

pub(super) fn job(it: Printed<'_>) -> Vec<Value> {
    let succeeded = it.integer("/status/succeeded");
    let completions = match (
        it.at("/spec/completions").as_i64(),
        it.integer("/spec/parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let started = age::read(it.at("/status/startTime"));
    let ended = age::read(it.at("/status/completionTime")).unwrap_or(it.now);
    let duration = started.map(|started| age::human(ended.duration_since(started)));
    let has = |name: &str| {
        let mut conditions = it.list("/status/conditions").iter();
        conditions.any(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if it.deleted() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let mut cells = vec![
        it.name(),
        json!(status),
        json!(completions),
        json!(duration.unwrap_or_default()),
        it.age(),
    ];
    cells.extend(template(it, &selector(it.at("/spec/selector"))));
    cells
}

pub(super) fn cron_job(it: Printed<'_>) -> Vec<Value> {
    let last = if it.at("/status/lastScheduleTime").is_string() {
        it.since("/status/lastScheduleTime")
    } else {
        "<none>".to_owned()
    };
    let suspended = match it.at("/spec/suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let [names, images] = containers(it.at("/spec/jobTemplate/spec/template/spec/containers"));
    vec![
        it.name(),
        it.text("/spec/schedule"),
        it.text_or("/spec/timeZone", "<none>"),
        json!(suspended),
        it.count(&["/status/active"]),
        json!(last),
        it.age(),
        names,
        images,
        json!(selector(it.at("/spec/jobTemplate/spec/selector"))),
    ]
}

pub(super) fn disruption_budget(it: Printed<'_>) -> Vec<Value> {
    let bound = |pointer: &str| match it.at(pointer) {
        Value::Null => json!("N/A"),
        value => json!(int_or_string(value)),
    };
    vec![
        it.name(),
        bound("/spec/minAvailable"),
        bound("/spec/maxUnavailable"),
        it.number("/status/disruptionsAllowed"),
        it.age(),
    ]
}

pub(super) fn autoscaler(it: Printed<'_>) -> Vec<Value> {
    let target = it.at("/spec/scaleTargetRef");
    let reference = format!("{}/{}", str_of(target, "kind"), str_of(target, "name"));
    let least = match it.at("/spec/minReplicas").as_i64() {
        Some(least) => least.to_string(),
        None => "<unset>".to_owned(),
    };
    vec![
        it.name(),
        json!(reference),
        json!(metrics(it)),
        json!(least),
        it.number("/spec/maxReplicas"),
        it.number("/status/currentReplicas"),
        it.age(),
    ]
}

/// What an autoscaler goes by: the values now and those that are wanted.
fn metrics(it: Printed<'_>) -> String {
    let current = it.list("/status/currentMetrics");
    let shown: Vec<String> = it
        .list("/spec/metrics")
        .iter()
        .enumerate()
        .map(|(i, wanted)| metric(wanted, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    match shown.len() {
        0 => "<none>".to_owned(),
        1 | 2 => shown.join(", "),
        count => format!("{} + {} more...", shown[..2].join(", "), count - 2),
    }
}

fn metric(wanted: &Value, current: &Value) -> String {
    let (source, named) = match str_of(wanted, "type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let (target, now) = (&wanted[source]["target"], &current[source]["current"]);
    let of = |values: &Value, name: &str| {
        values
            .get(name)
            .filter(|value| !value.is_null())
            .map(int_or_string)
    };
    let unknown = || "<unknown>".to_owned();
    let prefix = if named {
        format!("{}: ", str_of(&wanted[source], "name"))
    } else {
        String::new()
    };
    if let Some(average) = of(target, "averageValue") {
        let now = of(now, "averageValue").unwrap_or_else(unknown);
        let noted = if named || source == "pods" {
            ""
        } else {
            " (avg)"
        };
        return format!("{prefix}{now}/{average}{noted}");
    }
    if named {
        let percent = |value: String| format!("{value}%");
        let now = of(now, "averageUtilization").map_or_else(unknown, percent);
        let wanted = of(target, "averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
        return format!("{prefix}{now}/{wanted}");
    }
    let now = of(now, "value").unwrap_or_else(unknown);
    let wanted = list(&json!([target["value"]]))
        .iter()
        .map(int_or_string)
        .collect::<String>();
    format!("{now}/{wanted}")
}
