//! Hashes, the same on every machine and in every version: locks, phases and delays depend on them.

use sha2::{Digest, Sha256};

use crate::id::Id;

/// 2^64 divided by the golden ratio, the step of SplitMix64.
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

/// `whole` * `fraction` / 2^64, rounded down.
pub fn mulhi(fraction: u64, whole: u64) -> u64 {
    u64::try_from((u128::from(fraction) * u128::from(whole)) >> 64).unwrap_or(u64::MAX)
}

/// Maximum of [`phase31`], and the mask of its 31 bits.
pub const MOST_PHASE: u32 = 0x7fff_ffff;

/// Distance between the phases of neighbouring numbers: even a few spread evenly, as bench/multiplier.rs measures.
pub const MULTIPLIER: u32 = 1_658_526_633;

/// The phase of a record as a fraction of 2^64.
pub fn phase(id: &Id) -> u64 {
    u64::from(phase31(id)) << 33
}

/// The phase of a record as a fraction of 2^31, alike in every database. Text is hashed with SHA-256. Numbers are
/// multiplied to spread neighbours evenly, once their upper half is added: snowflake ids differ only there.
pub fn phase31(id: &Id) -> u32 {
    let mask = u64::from(MOST_PHASE);
    let phase = match id {
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
    u32::try_from(phase & mask).unwrap_or_default()
}

fn bits(id: &Id) -> u64 {
    match id {
        Id::Integer(id) => id.cast_unsigned(),
        Id::Text(_) | Id::Bytes(_) | Id::Composite(_) => fnv1a64(id.text().as_bytes()),
    }
}

/// A pseudorandom number that depends only on a seed, a record and a count.
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
