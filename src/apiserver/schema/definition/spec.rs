//! The spec of a definition, but for its schemas.

use serde_json::Value;

use super::super::node::strings;
use super::super::report::Report;
use super::{defaults, names, openapi, selectable, structure};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// Everything that a real server checks of a new definition, in its order.
pub(super) fn check(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let name = text(&object["metadata"]["name"]);
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        report.invalid_text("metadata.name", &name, detail);
    }
    if group.is_empty() {
        report.required("spec.group", "");
    } else if let Some(error) = names::subdomain_error(&group) {
        report.invalid_text("spec.group", &group, &error);
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        report.invalid_text("spec.group", &group, detail);
    }
    match spec["scope"].as_str().unwrap_or_default() {
        "" => report.required("spec.scope", ""),
        "Cluster" | "Namespaced" => {}
        other => report.not_supported("spec.scope", other, &["Cluster", "Namespaced"]),
    }
    versions(spec, report);
    names::check(&spec["names"], report);
    shared(spec, report);
    conversion(&spec["conversion"], report);
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        report.invalid("spec.preserveUnknownFields", &Value::Bool(true), detail);
    }
}

/// Whether all versions say the same of something. A real server then moves it up into the spec, so its
/// messages name it there.
fn identical(versions: &[Value], what: &str) -> bool {
    versions
        .windows(2)
        .all(|pair| pair[0][what] == pair[1][what])
}

fn versions(spec: &Value, report: &mut Report) {
    let none = Vec::new();
    let all = spec["versions"].as_array().unwrap_or(&none);
    for (i, version) in all.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
            report.required(path, "");
        }
    }
    let mut names = Vec::new();
    for (i, version) in all.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let name = version["name"].as_str().unwrap_or_default();
        names.push(name);
        if let Some(error) = names::label_error(name) {
            report.invalid_text(format!("{path}.name"), name, &error);
        }
        if let Some(warning) = version["deprecationWarning"].as_str() {
            let field = format!("{path}.deprecationWarning");
            if version["deprecated"] != true {
                report.invalid_text(field, warning, "can only be set for deprecated versions");
            } else if warning.is_empty() {
                report.invalid_text(field, warning, "must not be an empty string");
            } else if warning.len() > 256 {
                report.invalid_text(field, warning, "must be <= 256 characters long");
            }
        }
        if !identical(all, "schema") {
            let status = version["subresources"]["status"].is_object();
            schema(
                &version["schema"],
                &format!("{path}.schema"),
                status,
                report,
            );
        }
        if !identical(all, "subresources") {
            let path = format!("{path}.subresources");
            subresources(&version["subresources"], &path, report);
        }
        if !identical(all, "additionalPrinterColumns") {
            let path = format!("{path}.additionalPrinterColumns");
            columns(&version["additionalPrinterColumns"], &path, report);
        }
        if !identical(all, "selectableFields") {
            selectable::check(version, &format!("{path}.selectableFields"), report);
        }
    }
    let storing = all.iter().filter(|version| version["storage"] == true);
    let storing = storing.count();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    if unique.len() != names.len() {
        let detail = "must contain unique version names";
        report.invalid_shown("spec.versions", &shown(all), detail);
    }
    if storing != 1 {
        let detail = "must have exactly one version marked as storage version";
        report.invalid_shown("spec.versions", &shown(all), detail);
    }
    // Told once more of the first, by the name that it had before there were several.
    if let Some(name) = names.first().filter(|name| !name.is_empty())
        && let Some(error) = names::label_error(name)
    {
        report.invalid_text("spec.version", name, &error);
    }
}

/// What is the same in all versions, and so named in the spec.
fn shared(spec: &Value, report: &mut Report) {
    let none = Vec::new();
    let all = spec["versions"].as_array().unwrap_or(&none);
    let Some(first) = all.first() else {
        return;
    };
    if identical(all, "schema") {
        let status = all
            .iter()
            .any(|version| version["subresources"]["status"].is_object());
        schema(&first["schema"], "spec.validation", status, report);
    }
    if identical(all, "subresources") {
        subresources(&first["subresources"], "spec.subresources", report);
    }
    if identical(all, "additionalPrinterColumns") {
        let path = "spec.additionalPrinterColumns";
        columns(&first["additionalPrinterColumns"], path, report);
    }
    if identical(all, "selectableFields") {
        selectable::check(first, "spec.selectableFields", report);
    }
}

/// The versions as a real server shows them, which is by the names of its own structure.
fn shown(versions: &[Value]) -> String {
    let of = |version: &Value| {
        let flag = |name: &str| version[name] == true;
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\
             \"SelectableFields\":null}}",
            version["name"],
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            version["deprecationWarning"]
        )
    };
    let all: Vec<String> = versions.iter().map(of).collect();
    format!("[{}]", all.join(","))
}

/// `validateCustomResourceDefinitionValidation`.
fn schema(holder: &Value, path: &str, status: bool, report: &mut Report) {
    let schema = &holder["openAPIV3Schema"];
    if !schema.is_object() {
        return;
    }
    let path = format!("{path}.openAPIV3Schema");
    let mut found = Report::default();
    if status {
        openapi::root_with_status(schema, &path, &mut found);
    }
    if schema["nullable"] == true {
        found.forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        );
    }
    let structure = structure::check(schema, &path);
    let structural = structure.is_empty();
    found.append(structure);
    let mut sound = structural;
    if structural {
        let defaults = defaults::check(schema, &path);
        sound = defaults.is_empty();
        found.append(defaults);
    }
    openapi::check(schema, &path, sound, &mut found);
    report.append(found);
}

fn subresources(subresources: &Value, path: &str, report: &mut Report) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    for (name, under) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        let field = format!("{path}.scale.{name}");
        let value = scale[name].as_str().unwrap_or_default();
        if value.is_empty() {
            report.required(field, "");
        } else if simple_path(value, &field, report) && !value.starts_with(&format!("{under}.")) {
            report.invalid_text(
                field,
                value,
                &format!("should be a json path under {under}"),
            );
        }
    }
    let selector = scale["labelSelectorPath"].as_str().unwrap_or_default();
    let field = format!("{path}.scale.labelSelectorPath");
    if !selector.is_empty()
        && simple_path(selector, &field, report)
        && !selector.starts_with(".spec.")
        && !selector.starts_with(".status.")
    {
        let detail = "should be a json path under either .spec or .status";
        report.invalid_text(field, selector, detail);
    }
}

/// Whether it is a path such as `.spec.x`; says so where it is not.
fn simple_path(path: &str, field: &str, report: &mut Report) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        let detail = "must be a simple json path starting with .";
        report.invalid_text(field, path, detail);
    }
    simple
}

fn columns(columns: &Value, path: &str, report: &mut Report) {
    let columns = columns.as_array().map(Vec::as_slice).unwrap_or_default();
    for (i, column) in columns.iter().enumerate() {
        let field = |name: &str| format!("{path}[{i}].{name}");
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        if text("name").is_empty() {
            report.required(field("name"), "");
        }
        let one_of = format!("must be one of {}", COLUMN_TYPES.join(","));
        if text("type").is_empty() {
            report.required(field("type"), &one_of);
        } else if !COLUMN_TYPES.contains(&text("type")) {
            report.invalid_text(field("type"), text("type"), &one_of);
        }
        let format = text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let one_of = format!("must be one of {}", COLUMN_FORMATS.join(","));
            report.invalid_text(field("format"), format, &one_of);
        }
        if text("jsonPath").is_empty() {
            report.required(field("JSONPath"), "");
        } else {
            simple_path(text("jsonPath"), &field("JSONPath"), report);
        }
    }
}

fn conversion(conversion: &Value, report: &mut Report) {
    let path = "spec.conversion";
    let webhook = &conversion["webhook"];
    let client = &webhook["clientConfig"];
    let accepted = strings(&webhook["conversionReviewVersions"]);
    let client_path = format!("{path}.webhookClientConfig");
    let accepted_path = format!("{path}.conversionReviewVersions");
    match conversion["strategy"].as_str().unwrap_or_default() {
        "" => report.required(format!("{path}.strategy"), ""),
        "None" => {
            let detail = "should not be set when strategy is not set to Webhook";
            if client.is_object() {
                report.forbidden(client_path, detail);
            }
            if !accepted.is_empty() {
                report.forbidden(accepted_path, detail);
            }
        }
        "Webhook" => {
            webhook_client(client, &client_path, report);
            if accepted.is_empty() {
                report.required(accepted_path, "");
            } else if !accepted.iter().any(|v| v == "v1" || v == "v1beta1") {
                let detail = "must include at least one of v1, v1beta1";
                report.invalid(accepted_path, &webhook["conversionReviewVersions"], detail);
            }
        }
        other => report.not_supported(format!("{path}.strategy"), other, &["None", "Webhook"]),
    }
}

fn webhook_client(client: &Value, path: &str, report: &mut Report) {
    if !client.is_object() {
        report.required(path, "required when strategy is set to Webhook");
        return;
    }
    let (url, service) = (client["url"].as_str(), &client["service"]);
    match (url, service.is_object()) {
        (Some(_), true) | (None, false) => {
            report.required(path, "exactly one of url or service is required");
        }
        (Some(url), false) => {
            let form = "; desired format: https://host[/path]";
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            if scheme != "https" {
                let detail = format!("'https' is the only allowed URL scheme{form}");
                report.invalid_text(format!("{path}.url"), scheme, &detail);
            }
            if rest.is_empty() || rest.starts_with('/') {
                let detail = format!("host must be specified{form}");
                report.invalid_text(format!("{path}.url"), "", &detail);
            }
        }
        (None, true) => {
            // A real server mixes up the two.
            for (name, told) in [("namespace", "name"), ("name", "namespace")] {
                if service[name].as_str().unwrap_or_default().is_empty() {
                    report.required(format!("{path}.service.{told}"), "");
                }
            }
        }
    }
}
