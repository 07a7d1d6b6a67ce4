//! The table itself. Flags:
//!
//! | | |
//! |---|---|
//! | `n` | lives in a namespace |
//! | `s` | has a `status` subresource |
//! | `S` | has a `scale` subresource |
//! | `g` | keeps a generation |
//! | `a` | is in the category `all` |
//! | `x` | is in the category `api-extensions` |
//! | `c` | can only be created; nothing is stored |
//! | `r` | an update must name the resource version |
//! | `u` | an update creates what is missing |
//! | `l` | its name is a DNS label |
//! | `p` | its name is any path segment |
//! | `d` | a deletion answers with the object |

use super::Row;

const fn row(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    flags: &'static str,
) -> Row {
    Row {
        api_version,
        kind,
        plural,
        short,
        flags,
        subresources: "",
    }
}

const fn with(row: Row, subresources: &'static str) -> Row {
    Row {
        subresources,
        ..row
    }
}

const POD_SUBRESOURCES: &str = "binding=Binding,eviction=Eviction,log=Pod,\
    proxy=PodProxyOptions,ephemeralcontainers=Pod,resize=Pod";

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const APPS: &str = "apps/v1";
const AUTHN: &str = "authentication.k8s.io/v1";
const AUTHZ: &str = "authorization.k8s.io/v1";
const BATCH: &str = "batch/v1";
const NETWORKING: &str = "networking.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";

pub(super) const ROWS: &[Row] = &[
    row("v1", "ConfigMap", "configmaps", "cm", "n"),
    row("v1", "Endpoints", "endpoints", "ep", "nu"),
    row("v1", "Event", "events", "ev", "nu"),
    row("v1", "LimitRange", "limitranges", "limits", "nu"),
    with(
        row("v1", "Namespace", "namespaces", "ns", "sld"),
        "finalize=Namespace",
    ),
    row("v1", "Node", "nodes", "no", "s"),
    row("v1", "PersistentVolume", "persistentvolumes", "pv", "sd"),
    row(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "pvc",
        "nsd",
    ),
    with(row("v1", "Pod", "pods", "po", "nsgad"), POD_SUBRESOURCES),
    row("v1", "PodTemplate", "podtemplates", "", "ngd"),
    row(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        "nsSga",
    ),
    row("v1", "ResourceQuota", "resourcequotas", "quota", "nsd"),
    row("v1", "Secret", "secrets", "", "n"),
    row("v1", "Service", "services", "svc", "nsauld"),
    with(
        row("v1", "ServiceAccount", "serviceaccounts", "sa", "nd"),
        "token=TokenRequest",
    ),
    row("v1", "Binding", "bindings", "", "nc"),
    row(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "",
        "gr",
    ),
    row(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "",
        "gr",
    ),
    row(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd,crds",
        "sgrx",
    ),
    row(
        "apiregistration.k8s.io/v1",
        "APIService",
        "apiservices",
        "",
        "sr",
    ),
    row(APPS, "ControllerRevision", "controllerrevisions", "", "n"),
    row(APPS, "DaemonSet", "daemonsets", "ds", "nsga"),
    row(APPS, "Deployment", "deployments", "deploy", "nsSga"),
    row(APPS, "ReplicaSet", "replicasets", "rs", "nsSga"),
    row(APPS, "StatefulSet", "statefulsets", "sts", "nsSga"),
    row(AUTHN, "SelfSubjectReview", "selfsubjectreviews", "", "c"),
    row(AUTHN, "TokenReview", "tokenreviews", "", "c"),
    row(
        AUTHZ,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "",
        "nc",
    ),
    row(
        AUTHZ,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "",
        "c",
    ),
    row(
        AUTHZ,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "",
        "c",
    ),
    row(
        AUTHZ,
        "SubjectAccessReview",
        "subjectaccessreviews",
        "",
        "c",
    ),
    row(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        "nsa",
    ),
    row(BATCH, "CronJob", "cronjobs", "cj", "nsga"),
    row(BATCH, "Job", "jobs", "", "nsga"),
    row("coordination.k8s.io/v1", "Lease", "leases", "", "nur"),
    row(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        "",
        "ng",
    ),
    row("events.k8s.io/v1", "Event", "events", "ev", "nu"),
    row(NETWORKING, "Ingress", "ingresses", "ing", "nsg"),
    row(NETWORKING, "IngressClass", "ingressclasses", "", "g"),
    row(
        NETWORKING,
        "NetworkPolicy",
        "networkpolicies",
        "netpol",
        "ng",
    ),
    row(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        "nsgr",
    ),
    row(RBAC, "ClusterRole", "clusterroles", "", "p"),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", "", "p"),
    row(RBAC, "Role", "roles", "", "np"),
    row(RBAC, "RoleBinding", "rolebindings", "", "np"),
    row(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        "pc",
        "g",
    ),
    row(STORAGE, "CSIDriver", "csidrivers", "", "d"),
    row(STORAGE, "CSINode", "csinodes", "", "d"),
    row(
        STORAGE,
        "CSIStorageCapacity",
        "csistoragecapacities",
        "",
        "n",
    ),
    row(STORAGE, "StorageClass", "storageclasses", "sc", "d"),
    row(STORAGE, "VolumeAttachment", "volumeattachments", "", "sd"),
];
