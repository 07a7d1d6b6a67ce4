//! `ip`, `isIP`, `cidr`, `isCIDR` and what addresses and networks can do.

use std::any::Any;
use std::net::IpAddr;

use cel::common::types::{CelBool, CelInt, CelString, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::error;

static IP_TYPE: Type = Type::new_unspecified_type("net.IP");
static CIDR_TYPE: Type = Type::new_unspecified_type("net.CIDR");

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(IP_TYPE.to_owned())?;
    env.add_type(CIDR_TYPE.to_owned())?;
    add_overload!(env, fn ip: (CelString) -> Result<Ip>)?;
    add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    add_overload!(env, fn ip_string: (Ip) -> CelString, name = "string", id = "ip_to_string")?;
    add_member_overload!(env, fn family: (Ip) -> CelInt)?;
    add_member_overload!(env, fn is_unspecified: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_loopback: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_multicast: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_unicast: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_global_unicast: (Ip) -> CelBool)?;
    add_overload!(env, fn cidr: (CelString) -> Result<Cidr>)?;
    add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    add_overload!(env, fn cidr_string: (Cidr) -> CelString, name = "string", id = "cidr_to_string")?;
    add_member_overload!(env, fn contains_ip: (Cidr, Ip) -> CelBool, name = "containsIP")?;
    add_member_overload!(env, fn contains_ip_text: (Cidr, CelString) -> Result<CelBool>,
        name = "containsIP")?;
    add_member_overload!(env, fn contains_cidr: (Cidr, Cidr) -> CelBool, name = "containsCIDR")?;
    add_member_overload!(env, fn contains_cidr_text: (Cidr, CelString) -> Result<CelBool>,
        name = "containsCIDR")?;
    add_member_overload!(env, fn cidr_ip: (Cidr) -> Ip, name = "ip")?;
    add_member_overload!(env, fn masked: (Cidr) -> Cidr)?;
    add_member_overload!(env, fn prefix_length: (Cidr) -> CelInt)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}

macro_rules! value {
    ($type:ty, $cel:ident) => {
        impl Val for $type {
            fn get_type(&self) -> &Type {
                &$cel
            }

            fn cel_type() -> &'static Type {
                &$cel
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<Self>() == Some(self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(*self)
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $type {}
    };
}

value!(Ip, IP_TYPE);
value!(Cidr, CIDR_TYPE);

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text
        .parse()
        .map_err(|_| format!("IP Address {text:?} parse error during conversion from string"))?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err("IPv4-mapped IPv6 address is not allowed".to_owned())
        }
        other => Ok(other),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let parsed = || {
        let (address, bits) = text.split_once('/')?;
        let (address, bits) = (parse_ip(address).ok()?, bits.parse::<u8>().ok()?);
        (bits <= width(address)).then_some(Cidr { address, bits })
    };
    parsed().ok_or_else(|| {
        format!("network address parse error during conversion from string: {text:?}")
    })
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Cidr {
    /// The bits of an address from the left, as far as the network goes.
    fn network(self, address: IpAddr) -> u128 {
        let (bits, width) = match address {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
            IpAddr::V6(v6) => (u128::from(v6), 128),
        };
        bits.checked_shr(width - u32::from(self.bits)).unwrap_or(0)
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && self.network(self.address) == self.network(address)
    }
}

fn ip(text: &CelString<'_>) -> Result<Ip, ExecutionError> {
    parse_ip(text.inner())
        .map(Ip)
        .map_err(|said| error("ip", said))
}

fn is_ip(text: &CelString<'_>) -> CelBool {
    CelBool::from(parse_ip(text.inner()).is_ok())
}

fn is_canonical(text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let address = parse_ip(text.inner()).map_err(|said| error("ip.isCanonical", said))?;
    Ok(CelBool::from(address.to_string() == text.inner()))
}

fn ip_string<'v>(ip: &Ip) -> CelString<'v> {
    CelString::from(ip.0.to_string())
}

fn family(ip: &Ip) -> CelInt {
    CelInt::from(if ip.0.is_ipv4() { 4 } else { 6 })
}

fn is_unspecified(ip: &Ip) -> CelBool {
    CelBool::from(ip.0.is_unspecified())
}

fn is_loopback(ip: &Ip) -> CelBool {
    CelBool::from(ip.0.is_loopback())
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(ip: &Ip) -> CelBool {
    CelBool::from(link_local_multicast(ip.0))
}

fn is_link_local_unicast(ip: &Ip) -> CelBool {
    CelBool::from(link_local_unicast(ip.0))
}

fn is_global_unicast(ip: &Ip) -> CelBool {
    let broadcast = matches!(ip.0, IpAddr::V4(v4) if v4.is_broadcast());
    CelBool::from(
        !broadcast
            && !ip.0.is_unspecified()
            && !ip.0.is_loopback()
            && !ip.0.is_multicast()
            && !link_local_unicast(ip.0),
    )
}

fn cidr(text: &CelString<'_>) -> Result<Cidr, ExecutionError> {
    parse_cidr(text.inner()).map_err(|said| error("cidr", said))
}

fn is_cidr(text: &CelString<'_>) -> CelBool {
    CelBool::from(parse_cidr(text.inner()).is_ok())
}

fn cidr_string<'v>(cidr: &Cidr) -> CelString<'v> {
    CelString::from(format!("{}/{}", cidr.address, cidr.bits))
}

fn contains_ip(cidr: &Cidr, ip: &Ip) -> CelBool {
    CelBool::from(cidr.contains(ip.0))
}

fn contains_ip_text(cidr: &Cidr, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let address = parse_ip(text.inner()).map_err(|said| error("containsIP", said))?;
    Ok(CelBool::from(cidr.contains(address)))
}

fn contains_cidr(outer: &Cidr, inner: &Cidr) -> CelBool {
    CelBool::from(outer.bits <= inner.bits && outer.contains(inner.address))
}

fn contains_cidr_text(outer: &Cidr, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let inner = parse_cidr(text.inner()).map_err(|said| error("containsCIDR", said))?;
    Ok(contains_cidr(outer, &inner))
}

fn cidr_ip(cidr: &Cidr) -> Ip {
    Ip(cidr.address)
}

fn masked(cidr: &Cidr) -> Cidr {
    let network = cidr.network(cidr.address);
    let shift = u32::from(width(cidr.address) - cidr.bits);
    let bits = network.checked_shl(shift).unwrap_or(0);
    let address = match cidr.address {
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(bits).unwrap_or_default().into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    };
    Cidr {
        address,
        bits: cidr.bits,
    }
}

fn prefix_length(cidr: &Cidr) -> CelInt {
    CelInt::from(i64::from(cidr.bits))
}
