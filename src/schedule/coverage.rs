//! Coverage of ages by several lines: gaps and overlaps.

/// Ages up to the oldest that no line takes.
pub fn gaps(ages: &[(i64, Option<i64>)]) -> Vec<(i64, i64)> {
    let mut ages = ages.to_vec();
    ages.sort_unstable();
    let (mut gaps, mut covered) = (Vec::new(), Some(0));
    for (from, to) in ages {
        let Some(end) = covered else { break };
        if from > end {
            gaps.push((end, from));
        }
        covered = to.map(|to| to.max(end));
    }
    gaps
}

/// Ages that more than one line takes.
pub fn overlaps(ages: &[(i64, Option<i64>)]) -> Vec<(i64, Option<i64>)> {
    let mut ages = ages.to_vec();
    ages.sort_unstable();
    let (mut overlaps, mut covered): (Vec<(i64, Option<i64>)>, _) = (Vec::new(), Some(0));
    for (from, to) in ages {
        let end = match (covered, to) {
            (None, to) => to,
            (Some(covered), None) => Some(covered),
            (Some(covered), Some(to)) => Some(covered.min(to)),
        };
        if end.is_none_or(|end| end > from) {
            overlaps.push((from, end));
        }
        covered = match (covered, to) {
            (Some(covered), Some(to)) => Some(covered.max(to)),
            (None, _) | (_, None) => None,
        };
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_overlaps_are_found_in_any_order() {
        let classic = [(7, Some(14)), (0, Some(1)), (1, Some(7))];
        assert_eq!((gaps(&classic), overlaps(&classic)), (vec![], vec![]));
        let holes = [(20, Some(30)), (2, Some(7)), (9, None)];
        assert_eq!(gaps(&holes), [(0, 2), (7, 9)]);
        assert_eq!(overlaps(&holes), [(20, Some(30))]);
        let nested = [(0, Some(1)), (0, Some(7)), (0, Some(30))];
        assert_eq!(overlaps(&nested), [(0, Some(1)), (0, Some(7))]);
        assert_eq!(overlaps(&[(0, None), (0, None)]), [(0, None)]);
    }
}
