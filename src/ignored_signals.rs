//! The signals that this process ignores, as whoever started it does (`nohup`) or its own runtime.

/// A set of signals: the lowest bit is the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredSignals(u64);

impl IgnoredSignals {
    /// Those of this process, as the kernel shows them: proc_pid_status(5), SigIgn. None if it does not.
    pub fn of_this_process() -> Option<Self> {
        Self::from_status(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    fn from_status(status: &str) -> Option<Self> {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self::from_mask)
    }

    pub fn from_mask(mask: u64) -> Self {
        Self(mask)
    }

    pub fn contains(self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.0 >> (signal - 1) & 1 == 1
    }

    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |signal| self.contains(*signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_the_kernel_shows_them() {
        let of = |mask: &str| {
            let status = format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
            IgnoredSignals::from_status(&status).map(|it| it.iter().collect::<Vec<_>>())
        };
        assert_eq!(of("8000000000001001"), Some(vec![1, 13, 64]));
        assert_eq!(of("0000000000000000"), Some(vec![]));
        assert_eq!(of("soon"), None);
        assert_eq!(IgnoredSignals::from_status(""), None);
        assert!(!IgnoredSignals::from_mask(u64::MAX).contains(0));
    }
}
