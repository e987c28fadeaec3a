//! Public addresses, told from those of private networks, of this machine and of nobody.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the internet's, as far as its number shows: not of this host, of a
/// private or a shared network, link-local, for benchmarks, multicast or reserved. One of IPv6 that
/// carries one of IPv4 counts as what it carries.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224.., ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [198, 18..=19, ..]
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(carried) = carried(address) {
        return is_public_v4(carried);
    }
    let [first, second, third, ..] = address.segments();
    let is_unique_local = first & 0xfe00 == 0xfc00;
    // Link-local addresses, and the site-local ones that came before unique local ones.
    let is_local = first & 0xff80 == 0xfe80;
    let is_multicast = first & 0xff00 == 0xff00;
    // NAT64 as a network makes it for itself, in which the address of IPv4 may stand anywhere.
    let is_local_nat64 = [first, second, third] == [0x64, 0xff9b, 1];
    !(is_unique_local || is_local || is_multicast || is_local_nat64)
}

/// The address of IPv4 that one of IPv6 leads to: compatible (with `::` and `::1` among them),
/// mapped, translated, NAT64 or 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => of(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_of_the_internet_is_told() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("9.255.255.255", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("169.253.0.1", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("192.167.0.1", true),
            ("198.17.255.255", true),
            ("198.20.0.0", true),
            ("223.255.255.255", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.0", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.255.255.255", false),
            ("169.254.169.254", false),
            ("172.16.0.0", false),
            ("172.31.255.255", false),
            ("192.168.0.1", false),
            ("198.18.0.0", false),
            ("198.19.255.255", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700::1111", true),
            ("2001:db8::1", true),
            ("::", false),
            ("::1", false),
            ("fc00::1", false),
            ("fdff::1", false),
            ("fe80::1", false),
            ("febf::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("::ffff:1.1.1.1", true),
            ("::ffff:127.0.0.1", false),
            ("::ffff:a9fe:a9fe", false),
            ("::1.1.1.1", true),
            ("::10.0.0.1", false),
            ("::ffff:0:1.1.1.1", true),
            ("::ffff:0:10.0.0.1", false),
            ("64:ff9b::1.1.1.1", true),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::169.254.169.254", false),
            ("64:ff9b:1::1.1.1.1", false),
            ("64:ff9b:1:2:3::", false),
            ("2002:101:101::1", true),
            ("2002:7f00:1::1", false),
            ("2002:c0a8:1::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
