//! The functions that rules can call, by their types.

use super::types::Ty;

/// What is called, on what, with what, and what comes of it.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) target: Option<Ty<'static>>,
    pub(super) args: Vec<Ty<'static>>,
    pub(super) result: Ty<'static>,
}

/// The signatures of a function; `None` where there is no such function.
pub(super) fn of(name: &str) -> Option<Vec<Signature>> {
    let (_, overloads) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    Some(overloads.iter().map(|overload| read(overload)).collect())
}

/// Whether a name is the start of functions' names, as `sets` is.
pub(super) fn is_namespace(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| {
        known
            .split_once('.')
            .is_some_and(|(space, _)| space == name)
    })
}

/// Reads `string.(string, int) -> bool` or `(A) -> A`.
fn read(overload: &str) -> Signature {
    let (call, result) = overload.split_once(" -> ").unwrap_or((overload, "dyn"));
    let (target, args) = match call.split_once(".(") {
        Some((target, args)) => (Some(ty(target)), args),
        None => (None, call.trim_start_matches('(')),
    };
    let args = args.strip_suffix(')').unwrap_or(args);
    Signature {
        target,
        args: split(args).into_iter().map(ty).collect(),
        result: ty(result),
    }
}

/// The types between the commas that are in no brackets.
fn split(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        parts.push(list[start..].trim());
    }
    parts
}

fn ty(text: &str) -> Ty<'static> {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = split(inner.strip_suffix(')').unwrap_or(inner));
        let part = |i: usize| Box::new(inner.get(i).map_or(Ty::Dyn, |text| ty(text)));
        return match outer {
            "list" => Ty::List(part(0), None),
            "map" => Ty::Map(part(0), part(1)),
            _ => Ty::Optional(part(0)),
        };
    }
    match text {
        "A" => Ty::Param('A'),
        "B" => Ty::Param('B'),
        "bool" => Ty::Bool,
        "bytes" => Ty::Bytes,
        "cidr" => Ty::Opaque("net.CIDR"),
        "double" => Ty::Double,
        "duration" => Ty::Duration,
        "int" => Ty::Int,
        "ip" => Ty::Opaque("net.IP"),
        "quantity" => Ty::Opaque("kubernetes.Quantity"),
        "string" => Ty::String,
        "timestamp" => Ty::Timestamp,
        "type" => Ty::Type,
        "uint" => Ty::Uint,
        "url" => Ty::Opaque("kubernetes.URL"),
        _ => Ty::Dyn,
    }
}

const COMPARABLE: &[&str] = &[
    "(bool, bool) -> bool",
    "(int, int) -> bool",
    "(uint, uint) -> bool",
    "(double, double) -> bool",
    "(int, uint) -> bool",
    "(int, double) -> bool",
    "(uint, int) -> bool",
    "(uint, double) -> bool",
    "(double, int) -> bool",
    "(double, uint) -> bool",
    "(string, string) -> bool",
    "(bytes, bytes) -> bool",
    "(timestamp, timestamp) -> bool",
    "(duration, duration) -> bool",
];
const PART_OF_TIME: &[&str] = &["timestamp.() -> int", "timestamp.(string) -> int"];
const PART_OF_TIME_OR_SPAN: &[&str] = &[
    "timestamp.() -> int",
    "timestamp.(string) -> int",
    "duration.() -> int",
];
const OF_NUMBERS: &[&str] = &[
    "list(int).() -> int",
    "list(uint).() -> uint",
    "list(double).() -> double",
    "list(duration).() -> duration",
];
const EXTREME: &[&str] = &["list(A).() -> A"];

/// Names, each with its overloads.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("_==_", &["(A, A) -> bool"]),
    ("_!=_", &["(A, A) -> bool"]),
    ("_<_", COMPARABLE),
    ("_<=_", COMPARABLE),
    ("_>_", COMPARABLE),
    ("_>=_", COMPARABLE),
    ("_&&_", &["(bool, bool) -> bool"]),
    ("_||_", &["(bool, bool) -> bool"]),
    ("!_", &["(bool) -> bool"]),
    ("@not_strictly_false", &["(bool) -> bool"]),
    (
        "-_",
        &[
            "(int) -> int",
            "(double) -> double",
            "(duration) -> duration",
        ],
    ),
    (
        "_+_",
        &[
            "(int, int) -> int",
            "(uint, uint) -> uint",
            "(double, double) -> double",
            "(string, string) -> string",
            "(bytes, bytes) -> bytes",
            "(list(A), list(A)) -> list(A)",
            "(timestamp, duration) -> timestamp",
            "(duration, timestamp) -> timestamp",
            "(duration, duration) -> duration",
        ],
    ),
    (
        "_-_",
        &[
            "(int, int) -> int",
            "(uint, uint) -> uint",
            "(double, double) -> double",
            "(timestamp, timestamp) -> duration",
            "(timestamp, duration) -> timestamp",
            "(duration, duration) -> duration",
        ],
    ),
    (
        "_*_",
        &[
            "(int, int) -> int",
            "(uint, uint) -> uint",
            "(double, double) -> double",
        ],
    ),
    (
        "_/_",
        &[
            "(int, int) -> int",
            "(uint, uint) -> uint",
            "(double, double) -> double",
        ],
    ),
    ("_%_", &["(int, int) -> int", "(uint, uint) -> uint"]),
    ("_?_:_", &["(bool, A, A) -> A"]),
    ("@in", &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"]),
    ("_[_]", &["(list(A), int) -> A", "(map(A, B), A) -> B"]),
    (
        "_[?_]",
        &[
            "(list(A), int) -> optional(A)",
            "(map(A, B), A) -> optional(B)",
        ],
    ),
    // Conversions.
    ("bool", &["(bool) -> bool", "(string) -> bool"]),
    ("bytes", &["(bytes) -> bytes", "(string) -> bytes"]),
    (
        "double",
        &[
            "(double) -> double",
            "(int) -> double",
            "(uint) -> double",
            "(string) -> double",
        ],
    ),
    (
        "duration",
        &["(duration) -> duration", "(string) -> duration"],
    ),
    ("dyn", &["(A) -> dyn"]),
    (
        "int",
        &[
            "(int) -> int",
            "(uint) -> int",
            "(double) -> int",
            "(string) -> int",
            "(timestamp) -> int",
            "(duration) -> int",
        ],
    ),
    (
        "string",
        &[
            "(string) -> string",
            "(bool) -> string",
            "(int) -> string",
            "(uint) -> string",
            "(double) -> string",
            "(bytes) -> string",
            "(timestamp) -> string",
            "(duration) -> string",
            "(ip) -> string",
            "(cidr) -> string",
        ],
    ),
    (
        "timestamp",
        &[
            "(timestamp) -> timestamp",
            "(string) -> timestamp",
            "(int) -> timestamp",
        ],
    ),
    ("type", &["(A) -> type"]),
    (
        "uint",
        &[
            "(uint) -> uint",
            "(int) -> uint",
            "(double) -> uint",
            "(string) -> uint",
        ],
    ),
    // Strings.
    (
        "size",
        &[
            "(string) -> int",
            "(bytes) -> int",
            "(list(A)) -> int",
            "(map(A, B)) -> int",
            "string.() -> int",
            "bytes.() -> int",
            "list(A).() -> int",
            "map(A, B).() -> int",
        ],
    ),
    ("contains", &["string.(string) -> bool"]),
    ("startsWith", &["string.(string) -> bool"]),
    ("endsWith", &["string.(string) -> bool"]),
    (
        "matches",
        &["string.(string) -> bool", "(string, string) -> bool"],
    ),
    ("find", &["string.(string) -> string"]),
    (
        "findAll",
        &[
            "string.(string) -> list(string)",
            "string.(string, int) -> list(string)",
        ],
    ),
    ("charAt", &["string.(int) -> string"]),
    ("format", &["string.(list(dyn)) -> string"]),
    (
        "indexOf",
        &[
            "string.(string) -> int",
            "string.(string, int) -> int",
            "list(A).(A) -> int",
        ],
    ),
    (
        "lastIndexOf",
        &[
            "string.(string) -> int",
            "string.(string, int) -> int",
            "list(A).(A) -> int",
        ],
    ),
    (
        "join",
        &[
            "list(string).() -> string",
            "list(string).(string) -> string",
        ],
    ),
    ("lowerAscii", &["string.() -> string"]),
    ("upperAscii", &["string.() -> string"]),
    (
        "replace",
        &[
            "string.(string, string) -> string",
            "string.(string, string, int) -> string",
        ],
    ),
    (
        "split",
        &[
            "string.(string) -> list(string)",
            "string.(string, int) -> list(string)",
        ],
    ),
    ("strings.quote", &["(string) -> string"]),
    (
        "substring",
        &["string.(int) -> string", "string.(int, int) -> string"],
    ),
    ("trim", &["string.() -> string"]),
    // Lists.
    ("reverse", &["list(A).() -> list(A)", "string.() -> string"]),
    ("distinct", &["list(A).() -> list(A)"]),
    (
        "flatten",
        &["list(A).() -> list(dyn)", "list(A).(int) -> list(dyn)"],
    ),
    ("slice", &["list(A).(int, int) -> list(A)"]),
    ("sort", &["list(A).() -> list(A)"]),
    ("@sortByAssociatedKeys", &["list(A).(list(B)) -> list(A)"]),
    ("lists.range", &["(int) -> list(int)"]),
    ("isSorted", &["list(A).() -> bool"]),
    ("sum", OF_NUMBERS),
    ("min", EXTREME),
    ("max", EXTREME),
    ("sets.contains", &["(list(A), list(A)) -> bool"]),
    ("sets.equivalent", &["(list(A), list(A)) -> bool"]),
    ("sets.intersects", &["(list(A), list(A)) -> bool"]),
    // Times.
    ("getDate", PART_OF_TIME),
    ("getDayOfMonth", PART_OF_TIME),
    ("getDayOfWeek", PART_OF_TIME),
    ("getDayOfYear", PART_OF_TIME),
    ("getFullYear", PART_OF_TIME),
    ("getHours", PART_OF_TIME_OR_SPAN),
    ("getMilliseconds", PART_OF_TIME_OR_SPAN),
    ("getMinutes", PART_OF_TIME_OR_SPAN),
    ("getMonth", PART_OF_TIME),
    ("getSeconds", PART_OF_TIME_OR_SPAN),
    // Optional values.
    ("optional.none", &["() -> optional(dyn)"]),
    ("optional.of", &["(A) -> optional(A)"]),
    ("optional.ofNonZeroValue", &["(A) -> optional(A)"]),
    ("hasValue", &["optional(A).() -> bool"]),
    ("value", &["optional(A).() -> A"]),
    ("or", &["optional(A).(optional(A)) -> optional(A)"]),
    ("orValue", &["optional(A).(A) -> A"]),
    // Quantities.
    ("quantity", &["(string) -> quantity"]),
    ("isQuantity", &["(string) -> bool"]),
    ("sign", &["(quantity) -> int"]),
    ("isGreaterThan", &["quantity.(quantity) -> bool"]),
    ("isLessThan", &["quantity.(quantity) -> bool"]),
    ("compareTo", &["quantity.(quantity) -> int"]),
    ("asApproximateFloat", &["quantity.() -> double"]),
    ("asInteger", &["quantity.() -> int"]),
    ("isInteger", &["quantity.() -> bool"]),
    (
        "add",
        &[
            "quantity.(quantity) -> quantity",
            "quantity.(int) -> quantity",
        ],
    ),
    (
        "sub",
        &[
            "quantity.(quantity) -> quantity",
            "quantity.(int) -> quantity",
        ],
    ),
    // URLs.
    ("url", &["(string) -> url"]),
    ("isURL", &["(string) -> bool"]),
    ("getScheme", &["url.() -> string"]),
    ("getHost", &["url.() -> string"]),
    ("getHostname", &["url.() -> string"]),
    ("getPort", &["url.() -> string"]),
    ("getEscapedPath", &["url.() -> string"]),
    ("getQuery", &["url.() -> map(string, list(string))"]),
    // Addresses.
    ("ip", &["(string) -> ip", "cidr.() -> ip"]),
    ("isIP", &["(string) -> bool"]),
    ("ip.isCanonical", &["(string) -> bool"]),
    ("family", &["ip.() -> int"]),
    ("isUnspecified", &["ip.() -> bool"]),
    ("isLoopback", &["ip.() -> bool"]),
    ("isLinkLocalMulticast", &["ip.() -> bool"]),
    ("isLinkLocalUnicast", &["ip.() -> bool"]),
    ("isGlobalUnicast", &["ip.() -> bool"]),
    ("cidr", &["(string) -> cidr"]),
    ("isCIDR", &["(string) -> bool"]),
    (
        "containsIP",
        &["cidr.(ip) -> bool", "cidr.(string) -> bool"],
    ),
    (
        "containsCIDR",
        &["cidr.(cidr) -> bool", "cidr.(string) -> bool"],
    ),
    ("masked", &["cidr.() -> cidr"]),
    ("prefixLength", &["cidr.() -> int"]),
    ("base64.encode", &["(bytes) -> string"]),
    ("base64.decode", &["(string) -> bytes"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let read = read("map(A, list(B)).(string, int) -> optional(A)");
        assert_eq!(read.target.expect("a target").name(), "map(A, list(B))");
        assert_eq!(read.args.len(), 2);
        assert_eq!(read.result.name(), "optional_type(A)");
        assert_eq!(of("optional.none").expect("known")[0].args.len(), 0);
        assert!(of("nope").is_none());
        assert!(is_namespace("sets"));
    }
}
