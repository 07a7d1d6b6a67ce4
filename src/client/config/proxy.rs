//! The proxy on the way to the API server, if any: `proxy-url` of the kubeconfig, else the variables
//! of the environment.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::ConfigError;
use crate::client::secret::Secret;

/// A proxy that connections are made through.
#[derive(Clone)]
pub(in crate::client) struct Proxy {
    pub(in crate::client) protocol: Protocol,
    /// Scheme, host and port; no user.
    pub(in crate::client) address: Uri,
    user: Option<(String, Secret)>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Protocol {
    /// HTTP CONNECT.
    Http,
    /// HTTP CONNECT over TLS.
    Https,
    /// SOCKS 5; the proxy resolves names.
    Socks5,
}

impl Proxy {
    /// From a URL such as `http://user:password@proxy:3128`. What is wrong with it is said without
    /// quoting it: it may hold a password.
    pub(in crate::client) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (protocol, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Protocol::Http, 80),
            "https" => (Protocol::Https, 443),
            "socks5" | "socks5h" => (Protocol::Socks5, 1080),
            _ => return Err("its scheme must be http, https or socks5".to_owned()),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let host: http::uri::Authority = host
            .parse()
            .map_err(|_| "it is no URL such as http://proxy:3128".to_owned())?;
        let port = match host.as_str().strip_prefix(host.host()) {
            Some("") => default_port,
            _ => host.port_u16().ok_or("its port is no number up to 65535")?,
        };
        let address = format!("{}://{}:{port}", protocol.scheme(), host.host());
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            text.map(std::borrow::Cow::into_owned)
                .map_err(|_| "user and password must be UTF-8, percent-encoded".to_owned())
        };
        let user = match user {
            None | Some("") => None,
            Some(user) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                Some((decoded(name)?, Secret::new(decoded(password)?)))
            }
        };
        Ok(Self {
            protocol,
            address: address
                .parse()
                .map_err(|_| "it is no URL such as http://proxy:3128".to_owned())?,
            user,
        })
    }

    /// User and password, where there are any.
    pub(in crate::client) fn user(&self) -> Option<(&str, &Secret)> {
        self.user.as_ref().map(|(name, secret)| (&**name, secret))
    }

    /// `Proxy-Authorization`, where there is a user.
    pub(in crate::client) fn authorization(&self) -> Option<HeaderValue> {
        let (name, password) = self.user()?;
        let basic = STANDARD.encode(format!("{name}:{}", password.expose()));
        let mut value = HeaderValue::from_str(&format!("Basic {basic}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl Protocol {
    fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self
            .address
            .authority()
            .map_or("", |authority| authority.as_str());
        write!(f, "{}://{host}", self.protocol.scheme())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The proxy variables, as Go programs read them (upper case first, then lower case).
#[derive(Clone, Debug, Default)]
pub(super) struct ProxyEnvironment {
    pub(super) https: Option<String>,
    pub(super) http: Option<String>,
    /// NO_PROXY: what is reached directly all the same.
    pub(super) excluded: Option<String>,
}

impl ProxyEnvironment {
    pub(super) fn from_process() -> Self {
        let read = |upper: &str, lower: &str| {
            let upper = std::env::var(upper).ok().filter(|value| !value.is_empty());
            upper.or_else(|| std::env::var(lower).ok().filter(|value| !value.is_empty()))
        };
        Self {
            https: read("HTTPS_PROXY", "https_proxy"),
            http: read("HTTP_PROXY", "http_proxy"),
            excluded: read("NO_PROXY", "no_proxy"),
        }
    }

    /// The proxy by which kubectl would reach this server.
    pub(super) fn proxy_for(&self, server: &Uri) -> Result<Option<Proxy>, ConfigError> {
        let (variable, proxy) = if server.scheme_str() == Some("http") {
            ("HTTP_PROXY", &self.http)
        } else {
            ("HTTPS_PROXY", &self.https)
        };
        let host = server.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = Some(port(server));
        let excluded = || {
            let list = self.excluded.as_deref().unwrap_or_default();
            list.split(',')
                .any(|entry| matches(entry.trim(), host, port))
        };
        let Some(proxy) = proxy else {
            return Ok(None);
        };
        if is_local(host) || excluded() {
            return Ok(None);
        }
        let proxy = Proxy::parse(proxy)
            .map_err(|problem| ConfigError::Environment { variable, problem })?;
        Ok(Some(proxy))
    }
}

/// The port of a server, said or not.
pub(in crate::client) fn port(server: &Uri) -> u16 {
    server.port_u16().unwrap_or(match server.scheme_str() {
        Some("http") => 80,
        _ => 443,
    })
}

fn is_local(host: &str) -> bool {
    let loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback || host.eq_ignore_ascii_case("localhost")
}

/// One entry of NO_PROXY: `*`, a CIDR, an address, `name` (and all below it) or `.name` (only below
/// it), the last three optionally with a port.
fn matches(entry: &str, host: &str, port: Option<u16>) -> bool {
    if entry.is_empty() {
        return false;
    }
    if entry == "*" {
        return true;
    }
    let address = host.parse::<IpAddr>().ok();
    if let Some((network, bits)) = entry.split_once('/') {
        let network = network.parse::<IpAddr>().ok().zip(bits.parse::<u32>().ok());
        return network
            .zip(address)
            .is_some_and(|((network, bits), ip)| contains(network, bits, ip));
    }
    if let Ok(exact) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(exact);
    }
    let (name, wanted) = match entry.rsplit_once(':') {
        Some((name, wanted)) => (name, wanted.parse::<u16>().ok()),
        None => (entry, None),
    };
    if wanted.is_some() && wanted != port {
        return false;
    }
    if let Ok(exact) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(exact);
    }
    let (host, name) = (host.to_ascii_lowercase(), name.to_ascii_lowercase());
    let suffix = name.strip_prefix('.').unwrap_or(&name);
    let below = host
        .strip_suffix(suffix)
        .is_some_and(|rest| rest.ends_with('.'));
    below || (host == suffix && !name.starts_with('.'))
}

/// Whether the first `bits` bits of both addresses (of one family) agree.
fn contains(network: IpAddr, bits: u32, ip: IpAddr) -> bool {
    match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) if bits <= 32 => {
            let differing = network.to_bits() ^ ip.to_bits();
            differing.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) if bits <= 128 => {
            let differing = network.to_bits() ^ ip.to_bits();
            differing.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(no_proxy: &str, server: &str) -> bool {
        let environment = ProxyEnvironment {
            https: Some("http://proxy:3128".to_owned()),
            http: None,
            excluded: Some(no_proxy.to_owned()),
        };
        environment
            .proxy_for(&server.parse().unwrap())
            .unwrap()
            .is_some()
    }

    #[test]
    fn https_and_http_have_a_proxy_each_and_the_loopback_has_none() {
        assert!(proxied("", "https://api.example.com"));
        assert!(
            !proxied("", "http://api.example.com"),
            "HTTPS_PROXY is for https only"
        );
        assert!(!proxied("", "https://127.0.0.1:6443") && !proxied("", "https://[::1]:6443"));
    }

    #[test]
    fn k1587_no_proxy_knows_names_addresses_ports_and_cidr() {
        for entry in [
            "*",
            "example.com",
            "api.example.com",
            ".example.com",
            "EXAMPLE.com:443",
        ] {
            assert!(!proxied(entry, "https://api.example.com:443"), "{entry}");
        }
        for entry in [
            "ample.com",
            "example.com:444",
            ".api.example.com",
            "10.0.0.0/8",
        ] {
            assert!(proxied(entry, "https://api.example.com:443"), "{entry}");
        }
        for entry in [
            "10.1.2.3",
            "a,10.0.0.0/8",
            "0.0.0.0/0",
            "10.1.2.3/32",
            "10.1.2.3:443",
        ] {
            assert!(!proxied(entry, "https://10.1.2.3:443"), "{entry}");
        }
        for entry in [
            "10.1.2.4",
            "10.1.3.0/24",
            "fd00::/8",
            "10.1.2.3/33",
            "10.1.2.3:6443",
        ] {
            assert!(proxied(entry, "https://10.1.2.3:443"), "{entry}");
        }
        assert!(!proxied("fd00::/8", "https://[fd00::1]:443"));
    }

    #[test]
    fn a_proxy_is_understood_and_its_password_never_shown() {
        let proxy = Proxy::parse("http://me:p%40ss@proxy.example.com").unwrap();
        assert_eq!(proxy.address, "http://proxy.example.com:80");
        let (user, password) = proxy.user().unwrap();
        assert_eq!((user, password.expose()), ("me", "p@ss"));
        assert_eq!(proxy.authorization().unwrap(), "Basic bWU6cEBzcw==");
        assert_eq!(
            format!("{proxy:?} {proxy}"),
            "http://proxy.example.com:80 http://proxy.example.com:80"
        );

        let proxy = Proxy::parse("proxy:3128").unwrap();
        assert_eq!(
            (proxy.protocol, proxy.address.port_u16()),
            (Protocol::Http, Some(3128))
        );
        let proxy = Proxy::parse("socks5h://[fd00::1]").unwrap();
        assert_eq!(
            (proxy.protocol, proxy.address.port_u16()),
            (Protocol::Socks5, Some(1080))
        );
        for wrong in [
            "ftp://u:hunter2@a",
            "http://u:hunter2@",
            "http://u:hunter2@a:b",
            "http://u:hunter2%ff@a",
        ] {
            let problem = Proxy::parse(wrong).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
