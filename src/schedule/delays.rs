//! The delay table of a policy: its base delays, apart from how they are spread.

/// More entries than this no table has; what would come after them stays as the last one. Only
/// a wait that grows by single ticks for years gets there.
const MOST: usize = 1 << 20;

/// A delay table, in milliseconds: b(0), b(1), ..., and the last for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    /// At least one.
    waits: Vec<u64>,
    /// `sums[n]` is b(0) + .. + b(n).
    sums: Vec<u128>,
}

impl Delays {
    /// These waits, the last of which holds for ever. An empty list is one wait of 0.
    pub fn listed(waits: impl IntoIterator<Item = u64>) -> Self {
        let mut waits: Vec<u64> = waits.into_iter().take(MOST).collect();
        if waits.is_empty() {
            waits.push(0);
        }
        // The tail that stays the same need not be in the table twice.
        while let [.., before, last] = waits[..]
            && before == last
        {
            waits.pop();
        }
        let sums = waits
            .iter()
            .scan(0, |sum, wait| {
                *sum += u128::from(*wait);
                Some(*sum)
            })
            .collect();
        Self { waits, sums }
    }

    /// Waits that rise until they reach `max`, where they stay.
    pub fn rising(max: u64, waits: impl IntoIterator<Item = u64>) -> Self {
        let mut reached = false;
        let below = waits.into_iter().take_while(|wait| {
            let before = reached;
            reached = *wait >= max;
            !before
        });
        Self::listed(below.map(|wait| wait.min(max)))
    }

    /// How many entries there are: from `len() - 1` on the wait stays the same.
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// b(n), the wait after failure n + 1.
    pub fn wait(&self, n: u64) -> u64 {
        self.waits[self.row(n)]
    }

    /// P(n) = b(0) + .. + b(n).
    pub fn sum(&self, n: u64) -> u128 {
        let row = self.row(n);
        let beyond = u128::from(n) - row as u128;
        self.sums[row] + beyond * u128::from(self.waits[row])
    }

    fn row(&self, n: u64) -> usize {
        usize::try_from(n).unwrap_or(usize::MAX).min(self.waits.len() - 1)
    }

    /// The wait that holds for ever in the end.
    pub fn last(&self) -> u64 {
        self.wait(u64::MAX)
    }
}
