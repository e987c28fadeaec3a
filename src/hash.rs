//! Hashes that are part of what the program promises: the same on every machine and in every
//! version, because locks, phases and drawn waits are made from them.

use crate::record::Id;

/// 2^64 divided by the golden ratio: multiples of it lie as evenly in 64 bits as can be.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// FNV-1a with 64 bits (Fowler, Noll, Vo).
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// One step of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
pub fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The part of `whole` that `fraction` / 2^64 is of it, rounded down.
pub fn mulhi(fraction: u64, whole: u64) -> u64 {
    u64::try_from((u128::from(fraction) * u128::from(whole)) >> 64).unwrap_or(u64::MAX)
}

/// A record's own fixed fraction of 2^64. 256 neighbouring numbers lie evenly, as multiples of the
/// golden ratio, each such block turned by a hash. Text has no neighbours: its phase is a hash.
pub fn phase(id: &Id, salt: u64) -> u64 {
    let bits = bits(id);
    match id {
        Id::Integer(_) => bits.wrapping_mul(GOLDEN).wrapping_add(splitmix64((bits >> 8) ^ salt)),
        Id::Text(_) | Id::Composite(_) => splitmix64(bits ^ salt),
    }
}

fn bits(id: &Id) -> u64 {
    match id {
        Id::Integer(id) => id.cast_unsigned(),
        Id::Text(_) | Id::Composite(_) => fnv1a64(id.text().as_bytes()),
    }
}

/// What stands for a random number: drawn once for all from a seed, a record and a count.
pub fn draw(seed: u64, id: &Id, n: u32) -> u64 {
    splitmix64(splitmix64(splitmix64(seed) ^ bits(id)) ^ u64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
