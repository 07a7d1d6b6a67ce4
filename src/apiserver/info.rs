//! What a resource is, for discovery, tables and the object logic alike.

/// One version of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceInfo {
    /// API group; empty for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `ConfigMap`.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Name in paths, such as `configmaps`.
    pub plural: String,
    /// Name of one.
    pub singular: String,
    /// Short names, such as `cm`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether it lives in a namespace.
    pub namespaced: bool,
    /// Whether it has a `status` subresource.
    pub status: bool,
    /// Its `scale` subresource.
    pub scale: Option<ScaleInfo>,
    /// Other subresources, such as `log`, `eviction`, `proxy`, `binding`, with their kinds.
    pub subresources: Vec<(String, String)>,
    /// Group and version that its objects are stored in, where those are not its own.
    pub stored_in: Option<(String, String)>,
    /// Printer columns, without `Name` (and `Age` where there are none).
    pub columns: Vec<ColumnInfo>,
}

/// Where `scale` finds its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleInfo {
    /// JSON path of `spec.replicas`.
    pub spec_replicas: String,
    /// JSON path of `status.replicas`.
    pub status_replicas: String,
    /// JSON path of the selector, where there is one.
    pub label_selector: Option<String>,
}

/// A printer column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Title.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// OpenAPI format.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// Shown with `-o wide` only where above zero.
    pub priority: i32,
    /// JSON path, such as `.status.phase`.
    pub json_path: String,
}
