//! `url`, `isURL` and the parts of URLs.

use std::any::Any;
use std::collections::HashMap;

use cel::common::types::{CelBool, CelList, CelMap, CelMapKey, CelString, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::error;

static URL_TYPE: Type = Type::new_unspecified_type("kubernetes.URL");

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(URL_TYPE.to_owned())?;
    add_overload!(env, fn url: (CelString) -> Result<Url>)?;
    add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    add_member_overload!(env, fn get_scheme: (Url) -> CelString)?;
    add_member_overload!(env, fn get_host: (Url) -> CelString)?;
    add_member_overload!(env, fn get_hostname: (Url) -> CelString)?;
    add_member_overload!(env, fn get_port: (Url) -> CelString)?;
    add_member_overload!(env, fn get_escaped_path: (Url) -> CelString)?;
    add_member_overload!(env, fn get_query: (Url) -> CelMap)
}

/// An absolute URI or an absolute path, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// As Go's `url.ParseRequestURI`.
    fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("parse {text:?}: invalid URI for request");
        if text.is_empty() {
            return Err("parse \"\": empty url".to_owned());
        }
        if text.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err(format!(
                "parse {text:?}: net/url: invalid control character in URL"
            ));
        }
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = match before.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_lowercase(), rest),
            _ if before.starts_with('/') => (String::new(), before),
            _ => return Err(invalid()),
        };
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => {
                let end = rest.find('/').unwrap_or(rest.len());
                let host = rest[..end]
                    .rsplit_once('@')
                    .map_or(&rest[..end], |(_, host)| host);
                (host.to_owned(), rest[end..].to_owned())
            }
            _ if rest.starts_with('/') => (String::new(), rest.to_owned()),
            _ => return Err(invalid()),
        };
        Ok(Self {
            scheme,
            host,
            path,
            query: query.to_owned(),
        })
    }

    fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((before, port)) if !port.contains(']') && !before.is_empty() => port,
            _ => "",
        }
    }

    fn hostname(&self) -> &str {
        let host = match self.port() {
            "" => self.host.as_str(),
            port => &self.host[..self.host.len() - port.len() - 1],
        };
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        inner.unwrap_or(host)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

impl Val for Url {
    fn get_type(&self) -> &Type {
        &URL_TYPE
    }

    fn cel_type() -> &'static Type {
        &URL_TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Url {}

fn url(text: &CelString<'_>) -> Result<Url, ExecutionError> {
    Url::parse(text.inner()).map_err(|said| {
        error(
            "url",
            format!("URL parse error during conversion from string: {said}"),
        )
    })
}

fn is_url(text: &CelString<'_>) -> CelBool {
    CelBool::from(Url::parse(text.inner()).is_ok())
}

fn get_scheme<'v>(url: &Url) -> CelString<'v> {
    CelString::from(url.scheme.clone())
}

fn get_host<'v>(url: &Url) -> CelString<'v> {
    CelString::from(url.host.clone())
}

fn get_hostname<'v>(url: &Url) -> CelString<'v> {
    CelString::from(url.hostname().to_owned())
}

fn get_port<'v>(url: &Url) -> CelString<'v> {
    CelString::from(url.port().to_owned())
}

fn get_escaped_path<'v>(url: &Url) -> CelString<'v> {
    CelString::from(url.path.clone())
}

/// Each name of the query with its values.
fn get_query<'v>(url: &Url) -> CelMap<'v> {
    let mut query: HashMap<String, Vec<Box<dyn Val + 'v>>> = HashMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let values = query.entry(unescape(name)).or_default();
        values.push(Box::new(CelString::from(unescape(value))));
    }
    let entry = |(name, values): (String, Vec<Box<dyn Val + 'v>>)| {
        let values: Box<dyn Val + 'v> = Box::new(CelList::from(values));
        (CelMapKey::from(name), values)
    };
    CelMap::from(query.into_iter().map(entry).collect::<HashMap<_, _>>())
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let hex = |byte: u8| char::from(byte).to_digit(16);
        match (first, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, tail @ ..]) => {
                if let (Some(high), Some(low)) = (hex(*high), hex(*low)) {
                    bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                    rest = tail;
                } else {
                    bytes.push(b'%');
                }
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
