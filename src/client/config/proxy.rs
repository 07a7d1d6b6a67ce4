//! Whether the environment asks to go through a proxy. Mainstay does not speak through one yet, so
//! it says so instead of going around it.

use std::net::IpAddr;

use super::ConfigError;

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

    /// Refuses a server that kubectl would reach through a proxy.
    pub(super) fn check(&self, server: &http::Uri) -> Result<(), ConfigError> {
        let (variable, proxy) = if server.scheme_str() == Some("http") {
            ("HTTP_PROXY", &self.http)
        } else {
            ("HTTPS_PROXY", &self.https)
        };
        let host = server.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let excluded = || {
            let list = self.excluded.as_deref().unwrap_or_default();
            list.split(',')
                .any(|entry| matches(entry.trim(), host, server.port_u16()))
        };
        if proxy.is_none() || is_local(host) || excluded() {
            return Ok(());
        }
        Err(ConfigError::Environment {
            variable,
            problem: format!(
                "proxies are not supported yet; add {host} to NO_PROXY or unset {variable}"
            ),
        })
    }
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

    fn refused(no_proxy: &str, server: &str) -> bool {
        let environment = ProxyEnvironment {
            https: Some("http://proxy:3128".to_owned()),
            http: None,
            excluded: Some(no_proxy.to_owned()),
        };
        environment.check(&server.parse().unwrap()).is_err()
    }

    #[test]
    fn a_proxy_that_would_be_used_is_refused_not_ignored() {
        assert!(refused("", "https://api.example.com"));
        assert!(
            !refused("", "http://api.example.com"),
            "HTTPS_PROXY is for https only"
        );
        assert!(!refused("", "https://127.0.0.1:6443") && !refused("", "https://[::1]:6443"));
    }

    #[test]
    fn no_proxy_knows_names_addresses_ports_and_cidr() {
        for entry in [
            "*",
            "example.com",
            "api.example.com",
            ".example.com",
            "EXAMPLE.com:443",
        ] {
            assert!(!refused(entry, "https://api.example.com:443"), "{entry}");
        }
        for entry in [
            "ample.com",
            "example.com:444",
            ".api.example.com",
            "10.0.0.0/8",
        ] {
            assert!(refused(entry, "https://api.example.com:443"), "{entry}");
        }
        for entry in [
            "10.1.2.3",
            "a,10.0.0.0/8",
            "0.0.0.0/0",
            "10.1.2.3/32",
            "10.1.2.3:443",
        ] {
            assert!(!refused(entry, "https://10.1.2.3:443"), "{entry}");
        }
        for entry in [
            "10.1.2.4",
            "10.1.3.0/24",
            "fd00::/8",
            "10.1.2.3/33",
            "10.1.2.3:6443",
        ] {
            assert!(refused(entry, "https://10.1.2.3:443"), "{entry}");
        }
        assert!(!refused("fd00::/8", "https://[fd00::1]:443"));
    }
}
