//! Names of API resources: what a URL path and an error message need to know.

/// One resource type of an API server, as a path names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version within the group, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `Pod`.
    pub kind: &'static str,
    /// Plural used in paths, such as `pods`.
    pub plural: &'static str,
    /// Whether objects of this resource live in a namespace.
    pub namespaced: bool,
}

impl Resource {
    /// `group/version`, or just `version` for the core group: the `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Path of the collection, in one namespace or (with `None`) in all of them.
    #[must_use]
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace {
            Some(namespace) if self.namespaced => {
                format!("{root}/namespaces/{namespace}/{}", self.plural)
            }
            _ => format!("{root}/{}", self.plural),
        }
    }

    /// Path of one object, with an optional subresource such as `status`.
    #[must_use]
    pub fn object_path(
        &self,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
    ) -> String {
        let mut path = self.collection_path(namespace);
        path.push('/');
        path.push_str(name);
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        path
    }
}

const fn core(kind: &'static str, plural: &'static str) -> Resource {
    Resource {
        group: "",
        version: "v1",
        kind,
        plural,
        namespaced: true,
    }
}

/// `v1` Pod.
pub const POD: Resource = core("Pod", "pods");
/// `v1` Secret.
pub const SECRET: Resource = core("Secret", "secrets");
/// `v1` Endpoints.
pub const ENDPOINTS: Resource = core("Endpoints", "endpoints");
/// `v1` ConfigMap.
pub const CONFIG_MAP: Resource = core("ConfigMap", "configmaps");
/// `v1` Service.
pub const SERVICE: Resource = core("Service", "services");
/// `v1` PersistentVolumeClaim.
pub const PERSISTENT_VOLUME_CLAIM: Resource =
    core("PersistentVolumeClaim", "persistentvolumeclaims");
/// `policy/v1` PodDisruptionBudget.
pub const POD_DISRUPTION_BUDGET: Resource = Resource {
    group: "policy",
    version: "v1",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    namespaced: true,
};
/// `v1` Namespace.
pub const NAMESPACE: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    namespaced: false,
};
/// `apiextensions.k8s.io/v1` CustomResourceDefinition.
pub const CUSTOM_RESOURCE_DEFINITION: Resource = Resource {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    namespaced: false,
};
/// `coordination.k8s.io/v1` Lease.
pub const LEASE: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    namespaced: true,
};
/// `events.k8s.io/v1` Event.
pub const EVENT: Resource = Resource {
    group: "events.k8s.io",
    version: "v1",
    kind: "Event",
    plural: "events",
    namespaced: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_api_conventions() {
        assert_eq!(POD.collection_path(None), "/api/v1/pods");
        assert_eq!(
            LEASE.object_path(Some("ns"), "a", Some("status")),
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a/status"
        );
        assert_eq!(LEASE.api_version(), "coordination.k8s.io/v1");
        assert_eq!(POD.api_version(), "v1");
    }
}
