//! Groups of Kubernetes' own, whose definitions have to say who approved them.

use http::Uri;
use serde_json::Value;

use super::super::report::Report;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Checks the approval of a definition in a group of Kubernetes' own: the address of one, or the reason
/// why there is none.
pub(super) fn check(object: &Value, report: &mut Report) {
    if !is_protected(object["spec"]["group"].as_str().unwrap_or_default()) {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    let given = &object["metadata"]["annotations"][ANNOTATION];
    let given = given.as_str().unwrap_or_default();
    let address = given.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some());
    if given.is_empty() {
        let why = format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}");
        report.required(field, &why);
    } else if !given.starts_with("unapproved") && !address {
        let why = format!(
            "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a \
             reason starting with \"unapproved\", {SEE}"
        );
        report.invalid_text(field, given, &why);
    }
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].into_iter().any(|own| {
        group
            .strip_suffix(own)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definitions_in_groups_of_kubernetes_are_approved() {
        let causes = |group: &str, approval: &str| {
            let annotations = json!({ ANNOTATION: approval });
            let object =
                json!({"metadata": {"annotations": annotations}, "spec": {"group": group}});
            let mut report = Report::default();
            check(&object, &mut report);
            report.len()
        };
        assert_eq!(causes("notk8s.io", ""), 0);
        assert_eq!(causes("k8s.io", ""), 1);
        assert_eq!(causes("x.kubernetes.io", "yes"), 1);
        assert_eq!(causes("x.k8s.io", "unapproved, for a test"), 0);
        assert_eq!(causes("x.k8s.io", "https://example.com/1"), 0);
    }
}
