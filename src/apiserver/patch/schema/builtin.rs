//! The table of built-in kinds, from `builtin.types`, whose head explains it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use serde_json::{Value, json};

use super::{
    Atom, DEDUCED, Field, Id, Map, MergeSchema, Relation, Scalar, Strategy, Types, UNTYPED,
};

/// The built-in kinds and their types. A constant, which is text only for the reader's sake.
#[derive(Debug)]
pub(in crate::apiserver::patch) struct Table {
    types: Arc<Types>,
    /// Roots by group (empty for core) and kind.
    kinds: BTreeMap<(String, String), Id>,
    /// Named types.
    names: HashMap<String, Id>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("builtin.types")));

impl Table {
    /// The one table.
    pub(in crate::apiserver::patch) fn shared() -> &'static Self {
        &TABLE
    }

    /// Schema of a kind.
    pub(super) fn schema(&self, group: &str, kind: &str) -> Option<MergeSchema> {
        let root = *self.kinds.get(&(group.to_owned(), kind.to_owned()))?;
        Some(MergeSchema {
            types: Arc::clone(&self.types),
            root,
            typed: true,
        })
    }

    /// New types with the type `name` in them, and its number.
    pub(super) fn types_with(&self, name: &str) -> (Types, Id) {
        let mut types = Types::default();
        let id = types.copy(&self.types, self.names[name], &mut HashMap::new());
        (types, id)
    }

    /// Every kind: group and kind.
    #[cfg(test)]
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds
            .keys()
            .map(|(group, kind)| (group.as_str(), kind.as_str()))
    }

    fn parse(text: &str) -> Self {
        let lines = || {
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
                .map(|line| {
                    (
                        line.starts_with(' '),
                        line.split_whitespace().collect::<Vec<_>>(),
                    )
                })
        };
        let mut parser = Parser::default();
        for (field, words) in lines() {
            if let (false, ["type", name, marks @ ..]) = (field, words.as_slice()) {
                let id = parser.types.add(Atom::map(structure(name, marks)));
                parser.names.insert((*name).to_owned(), id);
            }
        }
        let mut kinds = BTreeMap::new();
        let mut current = (0, structure("", &[]));
        let mut done = Vec::new();
        for (is_field, words) in lines() {
            match (is_field, words.as_slice()) {
                (true, [name, of, marks @ ..]) => {
                    let field = parser.field(of, marks);
                    current.1.fields.insert((*name).to_owned(), field);
                }
                (false, ["type", name, marks @ ..]) => {
                    let next = structure(name, marks);
                    done.push(std::mem::replace(&mut current, (parser.names[*name], next)));
                }
                (false, ["kind", group, _version, kind, name]) => {
                    let group = if *group == "core" { "" } else { group };
                    kinds.insert((group.to_owned(), (*kind).to_owned()), parser.names[*name]);
                }
                _ => unreachable!("a line of builtin.types is a kind, a type or a field"),
            }
        }
        done.push(current);
        for (id, map) in done.into_iter().skip(1) {
            parser.types.set(id, Atom::map(map));
        }
        for (id, of) in parser.granular {
            let mut atom = parser.types.get(of).clone();
            if let Some(map) = &mut atom.map {
                map.atomic = false;
            }
            parser.types.set(id, atom);
        }
        Self {
            types: Arc::new(parser.types),
            kinds,
            names: parser.names,
        }
    }
}

#[derive(Default)]
struct Parser {
    types: Types,
    names: HashMap<String, Id>,
    /// Types that are others, but not atomic.
    granular: Vec<(Id, Id)>,
}

impl Parser {
    fn field(&mut self, of: &str, marks: &[&str]) -> Field {
        let mut field = Field {
            of: self.reference(of, marks),
            default: None,
            zero: None,
            omit: false,
            strategy: Strategy::Default,
        };
        for mark in marks {
            match mark.split_once('=').unwrap_or((mark, "")) {
                ("zero", _) => field.zero = Some(zero(of)),
                ("null", _) => field.zero = Some(Value::Null),
                ("omit", _) => field.omit = true,
                ("default", json) => field.default = serde_json::from_str(json).ok(),
                ("merge", "") => field.strategy = Strategy::Merge(None),
                ("merge", key) => field.strategy = Strategy::Merge(Some(key.to_owned())),
                ("replace", _) => field.strategy = Strategy::Replace,
                _ => {}
            }
        }
        if field.default.is_none() {
            field.default = field.zero.clone().filter(|zero| !zero.is_null());
        }
        field
    }

    fn reference(&mut self, of: &str, marks: &[&str]) -> Id {
        let inner = |open, close| of.strip_prefix(open)?.strip_suffix(close);
        if let Some(item) = inner('[', ']') {
            let item = self.reference(item, &[]);
            let relation = marks
                .iter()
                .find_map(|mark| match mark.split_once('=') {
                    Some(("keys", keys)) => Some(Relation::Keyed(
                        keys.split(',').map(str::to_owned).collect(),
                    )),
                    None if *mark == "set" => Some(Relation::Set),
                    _ => None,
                })
                .unwrap_or(Relation::Atomic);
            return self.types.add(Atom::list(item, relation));
        }
        if let Some(rest) = inner('{', '}') {
            let rest = self.reference(rest, &[]);
            return self.types.add(Atom::map(Map {
                name: String::new(),
                fields: BTreeMap::new(),
                rest: Some(rest),
                atomic: marks.contains(&"atomic"),
            }));
        }
        match of {
            "string" => self.types.add(Atom::scalar(Scalar::String)),
            "number" => self.types.add(Atom::scalar(Scalar::Number)),
            "boolean" => self.types.add(Atom::scalar(Scalar::Boolean)),
            "scalar" => self.types.add(Atom::scalar(Scalar::Any)),
            "deduced" => DEDUCED,
            "untyped" => UNTYPED,
            name if marks.contains(&"granular") => {
                let id = self.types.add(Atom::default());
                self.granular.push((id, self.names[name]));
                id
            }
            name => self.names[name],
        }
    }
}

/// A struct, yet without fields.
fn structure(name: &str, marks: &[&str]) -> Map {
    Map {
        name: name.rsplit('.').next().unwrap_or(name).to_owned(),
        fields: BTreeMap::new(),
        rest: None,
        atomic: marks.contains(&"atomic"),
    }
}

/// Go's zero value of a type.
fn zero(of: &str) -> Value {
    match of {
        "string" => json!(""),
        "number" => json!(0),
        "boolean" => json!(false),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::patch::schema::Shape;

    fn at<'a>(schema: &'a MergeSchema, path: &[&str]) -> &'a Atom {
        let mut atom = schema.types.get(schema.root);
        for name in path {
            if let Some(list) = &atom.list {
                atom = schema.types.get(list.item);
            }
            let map = atom.map.as_ref().expect("an object");
            atom = schema.types.get(map.of(name));
        }
        atom
    }

    #[test]
    fn every_kind_has_metadata_and_knows_its_lists() {
        let table = Table::shared();
        assert!(table.kinds().count() > 40);
        for (group, kind) in table.kinds() {
            let schema = table.schema(group, kind).expect("listed");
            let owners = at(&schema, &["metadata", "ownerReferences"]);
            let list = owners.list.as_ref().expect("a list");
            assert_eq!(
                list.relation,
                Relation::Keyed(vec!["uid".to_owned()]),
                "{kind}"
            );
        }
    }

    #[test]
    fn marks_are_understood() {
        let pod = MergeSchema::builtin("", "Pod");
        let relation = |path: &[&str]| at(&pod, path).list.as_ref().map(|l| l.relation.clone());
        let keys = |keys: &[&str]| {
            Some(Relation::Keyed(
                keys.iter().map(|k| (*k).to_owned()).collect(),
            ))
        };
        assert_eq!(relation(&["spec", "containers"]), keys(&["name"]));
        assert_eq!(
            relation(&["spec", "containers", "ports"]),
            keys(&["containerPort", "protocol"])
        );
        assert_eq!(relation(&["spec", "tolerations"]), Some(Relation::Atomic));
        assert_eq!(relation(&["metadata", "finalizers"]), Some(Relation::Set));
        let atomic = |path: &[&str]| at(&pod, path).map.as_ref().map(|map| map.atomic);
        assert_eq!(atomic(&["spec", "nodeSelector"]), Some(true));
        assert_eq!(
            atomic(&["spec", "containers", "resources", "limits"]),
            Some(false)
        );
        let volume = MergeSchema::builtin("", "PersistentVolume");
        let claim = at(&volume, &["spec", "claimRef"]);
        assert!(
            matches!(claim.shape(None), Shape::Map(map) if !map.atomic && !map.fields.is_empty())
        );
    }

    #[test]
    fn objects_take_the_form_of_gos_types() {
        let mut pod = json!({
            "metadata": {"name": "a", "labels": {}, "annotations": {"x": null}},
            "spec": {
                "hostNetwork": false,
                "nodeName": "",
                "hostname": null,
                "containers": [{"name": "c", "image": null, "ports": []}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "terminationGracePeriodSeconds": 0,
            },
        });
        MergeSchema::builtin("", "Pod").complete(&mut pod);
        assert_eq!(
            pod,
            json!({
                "metadata": {"name": "a", "annotations": {"x": ""}},
                "spec": {
                    "containers": [{"name": "c", "resources": {}}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "terminationGracePeriodSeconds": 0,
                },
                "status": {},
            })
        );
        let mut role = json!({"metadata": {"name": "a"}});
        MergeSchema::builtin("rbac.authorization.k8s.io", "Role").complete(&mut role);
        assert_eq!(role, json!({"metadata": {"name": "a"}, "rules": null}));
    }
}
