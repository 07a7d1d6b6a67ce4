//! The table of messages, from `kinds.messages`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    One(&'static str),
    List(&'static str),
    /// With texts as keys.
    Map(&'static str),
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) of: Of,
    /// JSON has its fields in the object itself.
    pub(super) inline: bool,
    /// Its zero value says something.
    pub(super) pointer: bool,
}

/// All messages.
#[derive(Debug, Default)]
pub(super) struct Table {
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
    messages: BTreeMap<&'static str, BTreeMap<u64, Field>>,
}

/// A constant, which is text only for the reader's sake.
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("kinds.messages")));

impl Table {
    /// The one table.
    pub(super) fn shared() -> &'static Self {
        &TABLE
    }

    /// The message of a kind. `DeleteOptions` and their like are in every group.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        if kind == "DeleteOptions" {
            return Some("meta.v1.DeleteOptions");
        }
        self.kinds.get(&(api_version, kind)).copied()
    }

    /// The fields of a message by number.
    pub(super) fn fields(&self, message: &str) -> Option<&BTreeMap<u64, Field>> {
        self.messages.get(message)
    }

    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut current = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match (line.starts_with(' '), words.as_slice()) {
                (false, ["kind", api_version, kind, message]) => {
                    table.kinds.insert((api_version, kind), message);
                }
                (false, ["type", message]) => {
                    current = message;
                    table.messages.insert(message, BTreeMap::new());
                }
                (true, [number, name, of, marks @ ..]) => {
                    let inner =
                        |open, close| of.strip_prefix(open).and_then(|of| of.strip_suffix(close));
                    let field = Field {
                        name,
                        of: match (inner('[', ']'), inner('{', '}')) {
                            (Some(item), _) => Of::List(item),
                            (_, Some(item)) => Of::Map(item),
                            _ => Of::One(of),
                        },
                        inline: marks.contains(&"inline"),
                        pointer: marks.contains(&"pointer"),
                    };
                    let number = number.parse().expect("a field begins with its number");
                    table
                        .messages
                        .entry(current)
                        .or_default()
                        .insert(number, field);
                }
                _ => unreachable!("a line of kinds.messages is a kind, a type or a field"),
            }
        }
        table
    }
}
