//! Alerts and the dashboard ask for what there is.

use std::fs;

use serde_json::Value;

use super::{component, promql, tables};

/// An alert.
struct Alert {
    name: String,
    expr: String,
    value: Value,
}

fn alerts() -> Vec<Alert> {
    let text = fs::read_to_string(component("rules.yaml")).unwrap();
    let rules: Value = serde_yaml::from_str(&text).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| Alert {
            name: rule["alert"].as_str().unwrap().to_owned(),
            expr: rule["expr"].as_str().unwrap().to_owned(),
            value: rule.clone(),
        })
        .collect()
}

/// A query of the dashboard: the panel's title, the expression, the legend.
fn queries() -> Vec<(String, String, String)> {
    let text = fs::read_to_string(component("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let expr = target["expr"].as_str().unwrap();
            queries.push((title.to_owned(), expr.to_owned(), legend.to_owned()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let query = query.strip_prefix("label_values(").unwrap();
            let (series, label) = query.strip_suffix(')').unwrap().split_once(", ").unwrap();
            let title = variable["name"].as_str().unwrap();
            let legend = format!("{{{{{label}}}}}");
            queries.push((title.to_owned(), series.to_owned(), legend));
        }
    }
    queries
}

/// Names between `before` and `}}`.
fn templates<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).map(|rest| {
        let end = rest.find("}}").expect("a template ends");
        rest[..end].split('|').next().unwrap().trim()
    })
}

fn check_labels(of: &str, expr: &str, names: &[&str]) {
    let labels = promql::read(expr).unwrap().labels();
    for name in names {
        let there = labels.iter().any(|label| label == name);
        assert!(there, "{of}: {name} is no label of what {expr} gives");
    }
}

#[test]
fn alerts_ask_for_what_there_is() {
    for alert in alerts() {
        let problems = promql::problems(&alert.expr);
        assert!(problems.is_empty(), "{}: {problems:?}", alert.name);
    }
}

#[test]
fn alerts_say_how_bad_since_when_what_and_what_to_do() {
    let alerts = alerts();
    assert!(alerts.len() > 15, "{} alerts", alerts.len());
    for Alert { name, expr, value } in &alerts {
        let same = alerts.iter().filter(|other| other.name == *name);
        assert_eq!(same.count(), 1, "{name} twice");
        let severity = value["labels"]["severity"].as_str();
        assert!(
            matches!(severity, Some("critical" | "warning")),
            "{name}: {severity:?}"
        );
        assert!(value["for"].is_string(), "{name} fires at once");
        for annotation in ["summary", "description", "runbook"] {
            let text = value["annotations"][annotation]
                .as_str()
                .unwrap_or_default();
            assert!(text.len() > 20, "{name}: {annotation}: {text:?}");
            let labels: Vec<&str> = templates(text, "$labels.").collect();
            check_labels(name, expr, &labels);
        }
    }
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let queries = queries();
    assert!(queries.len() > 30, "{} queries", queries.len());
    for (title, expr, legend) in queries {
        let problems = promql::problems(&expr);
        assert!(problems.is_empty(), "{title}: {expr}: {problems:?}");
        let labels: Vec<&str> = templates(&legend, "{{").collect();
        check_labels(&title, &expr, &labels);
    }
}

/// The checks above can fail: a letter less in any name of a series or label is found.
#[test]
fn a_typo_anywhere_is_found() {
    let alerts = alerts().into_iter().map(|alert| alert.expr);
    let dashboard = queries().into_iter().map(|(_, expr, _)| expr);
    let mut tried = 0;
    for expr in alerts.chain(dashboard) {
        let read = promql::read(&expr).unwrap();
        let series = read.selectors.iter().map(|(series, _)| series);
        let matched = read.selectors.iter().flat_map(|(_, matchers)| matchers);
        let matched = matched.map(|(label, _)| label);
        for name in series.chain(matched).chain(&read.grouping) {
            // `namespace` in place of `namespace`s of several kinds is all the same.
            let wrong = expr.replace(name.as_str(), &name[..name.len() - 1]);
            assert!(!promql::problems(&wrong).is_empty(), "{wrong}");
            tried += 1;
        }
    }
    assert!(tried > 150, "{tried} names");
}

#[test]
fn what_people_are_told_of_is_used() {
    // Of what is ours, an alert or a panel should show all but these.
    const NOT_SHOWN: &[&str] = &[
        "mainstay_build_info",
        "mainstay_breaker_transitions_total",
        "mainstay_leader_term",
        "mainstay_leader_transitions_total",
        "mainstay_cluster_instances_heard",
    ];
    let exprs: String = alerts()
        .into_iter()
        .map(|alert| alert.expr)
        .chain(queries().into_iter().map(|(_, expr, _)| expr))
        .collect();
    for metric in tables::all().filter(|metric| metric.name.starts_with("mainstay_")) {
        let shown = exprs.contains(metric.name);
        let meant = NOT_SHOWN.contains(&metric.name);
        assert!(shown != meant, "{} shown: {shown}", metric.name);
    }
}
