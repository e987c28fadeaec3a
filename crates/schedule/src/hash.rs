//! Hashes, the same on every machine and in every version: locks, phases and waits depend on them.

use sha2::{Digest, Sha256};

use crate::id::Id;

/// 2^64 divided by the golden ratio, by which SplitMix64 counts.
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

/// The largest phase of [`phase31`], and the mask of its 31 bits.
pub const MOST_PHASE: u32 = 0x7fff_ffff;

/// Distance of neighbours, of 2^31. By bench/multiplier.rs few of them lie evenly in every interval.
pub const MULTIPLIER: u32 = 1_658_526_633;

/// A record's own fixed fraction of 2^64: that of [`phase31`].
pub fn phase(id: &Id) -> u64 {
    u64::from(phase31(id)) << 33
}

/// A record's own fraction of 2^31, as each database calculates it: of a number a multiple, so that neighbours
/// lie evenly; of text its SHA-256. The upper half of a number is added, because snowflakes differ there alone.
pub fn phase31(id: &Id) -> u32 {
    let mask = u64::from(MOST_PHASE);
    let place = match id {
        Id::Integer(number) => {
            let bits = number.cast_unsigned();
            ((bits & mask) + ((bits >> 31) & mask)) * u64::from(MULTIPLIER)
        }
        Id::Text(_) | Id::Bytes(_) | Id::Composite(_) => {
            let hash = Sha256::digest(id.text().as_bytes());
            let first = hash.iter().take(4).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            first >> 1
        }
    };
    u32::try_from(place & mask).unwrap_or_default()
}

fn bits(id: &Id) -> u64 {
    match id {
        Id::Integer(id) => id.cast_unsigned(),
        Id::Text(_) | Id::Bytes(_) | Id::Composite(_) => fnv1a64(id.text().as_bytes()),
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
