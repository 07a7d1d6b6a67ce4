//! The types of expressions, as far as a schema and the functions' signatures tell.

use super::super::node::{Additional, ListType, Node, Type as JsonType};

/// The type of an expression. `Dyn` is anything; a check that meets it holds.
#[derive(Clone, Debug)]
pub(super) enum Ty<'s> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Type,
    /// A type of a library, by its name.
    Opaque(&'static str),
    List(Box<Ty<'s>>, Option<&'s ListType>),
    Map(Box<Ty<'s>>, Box<Ty<'s>>),
    /// An object of a schema, with its metadata where it is a whole one.
    Object(&'s Node, bool),
    /// The metadata of a whole object.
    Meta,
    Optional(Box<Ty<'s>>),
    /// A parameter of a signature.
    Param(char),
}

impl<'s> Ty<'s> {
    /// The type of what a schema describes; `None` for what rules can't see, since the schema knows nothing
    /// of it.
    pub(super) fn of(node: &'s Node, object: bool) -> Option<Self> {
        if node.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match node.types.first()? {
            JsonType::Array => {
                let inner = node.items.as_deref()?;
                let item = Self::of(inner, inner.embedded)?;
                Self::List(Box::new(item), Some(&node.list_type))
            }
            JsonType::Boolean => Self::Bool,
            JsonType::Integer => Self::Int,
            JsonType::Number => Self::Double,
            JsonType::Object => match &node.additional {
                Some(Additional::Schema(inner)) => {
                    let value = Self::of(inner, inner.embedded)?;
                    Self::Map(Box::new(Self::String), Box::new(value))
                }
                _ => Self::Object(node, object || node.embedded),
            },
            JsonType::String => match node.format.as_deref() {
                Some("byte") => Self::Bytes,
                Some("date" | "date-time" | "datetime") => Self::Timestamp,
                Some("duration") => Self::Duration,
                _ => Self::String,
            },
        })
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// As CEL writes it in its messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Type => "type".to_owned(),
            Self::Opaque(name) => (*name).to_owned(),
            Self::List(item, _) => format!("list({})", item.name()),
            Self::Map(key, value) => format!("map({}, {})", key.name(), value.name()),
            Self::Object(..) | Self::Meta => "object".to_owned(),
            Self::Optional(inner) => format!("optional_type({})", inner.name()),
            Self::Param(name) => name.to_string(),
        }
    }

    /// Whether a value of this type may stand where `wanted` is asked for; binds the parameters of a
    /// signature as it goes.
    pub(super) fn fits(&self, wanted: &Self, bound: &mut Vec<(char, Self)>) -> bool {
        if let Self::Param(name) = wanted {
            if let Some((_, known)) = bound.iter().find(|(known, _)| known == name) {
                return self.fits(&known.clone(), &mut Vec::new());
            }
            bound.push((*name, self.clone()));
            return true;
        }
        match (self, wanted) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Null, other) | (other, Self::Null) => matches!(
                other,
                Self::Null
                    | Self::Object(..)
                    | Self::Meta
                    | Self::Opaque(_)
                    | Self::Optional(_)
                    | Self::Timestamp
                    | Self::Duration
            ),
            (Self::List(own, _), Self::List(wanted, _))
            | (Self::Optional(own), Self::Optional(wanted)) => own.fits(wanted, bound),
            (Self::Map(own, value), Self::Map(wanted, wanted_value)) => {
                own.fits(wanted, bound) && value.fits(wanted_value, bound)
            }
            (Self::Opaque(own), Self::Opaque(wanted)) => own == wanted,
            (Self::Object(own, _), Self::Object(wanted, _)) => std::ptr::eq(*own, *wanted),
            _ => std::mem::discriminant(self) == std::mem::discriminant(wanted),
        }
    }

    /// With the parameters of a signature put in.
    pub(super) fn substituted(&self, bound: &[(char, Self)]) -> Self {
        match self {
            Self::Param(name) => bound
                .iter()
                .find(|(known, _)| known == name)
                .map_or(Self::Dyn, |(_, ty)| ty.clone()),
            Self::List(item, order) => Self::List(Box::new(item.substituted(bound)), *order),
            Self::Map(key, value) => Self::Map(
                Box::new(key.substituted(bound)),
                Box::new(value.substituted(bound)),
            ),
            Self::Optional(inner) => Self::Optional(Box::new(inner.substituted(bound))),
            other => other.clone(),
        }
    }

    /// One type for two alternatives.
    pub(super) fn joined(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Null, _) => other,
            (Self::List(own, _), Self::List(_, _)) if own.is_dyn() => other,
            (Self::Map(_, own), Self::Map(..)) if own.is_dyn() => other,
            (Self::Optional(own), Self::Optional(_)) if own.is_dyn() => other,
            _ if self.fits(&other, &mut Vec::new()) => self,
            _ => Self::Dyn,
        }
    }
}
