//! What the application looks for by itself: the conditions of its indexes on a part of the rows.

use super::profile::Profile;
use super::propose::Evidence;
use crate::record::Value;
use crate::store::identifiers;

impl Evidence<'_> {
    /// Whether an index on what is not done leaves out the rows that have another column set as well.
    pub fn leaves_out(
        &self,
        done: &Profile<'_>,
        other: &Profile<'_>,
        is_set: impl Fn(usize) -> bool,
    ) -> bool {
        let reads = |names: &[String], it: &Profile<'_>| {
            names.iter().any(|name| name.eq_ignore_ascii_case(it.name()))
        };
        (0..self.outline.parts.len()).any(|part| {
            let names: Vec<_> = identifiers(&self.outline.parts[part]).into_iter().collect();
            let (holds, others) = self.part(part);
            reads(&names, done)
                && reads(&names, other)
                && !names.iter().any(|name| name == "or")
                && !holds.is_empty()
                && !holds.iter().any(|row| is_set(*row))
                && others.iter().any(|row| is_set(*row))
        })
    }

    /// Whether an index names several values of a status that it leads to, if there are such rows.
    pub fn names_together(&self, values: &[&str]) -> bool {
        self.outline.parts.iter().any(|condition| {
            let names = identifiers(condition);
            let has =
                |value: &&str| condition.contains(&format!("'{}'", value.replace('\'', "''")));
            let leads_to = !condition.contains("<>")
                && !condition.contains("!=")
                && !["not", "or", "all"].iter().any(|word| names.contains(*word));
            leads_to && values.iter().all(has)
        })
    }

    /// The values of a status that an index leads to, of each that leads to several whole ones.
    pub fn searched_values(&self, status: &Profile<'_>) -> Vec<Vec<Value>> {
        let mut all = Vec::new();
        for part in 0..self.outline.parts.len() {
            let (holds, others) = self.part(part);
            let mut values: Vec<Value> = Vec::new();
            for row in &holds {
                if !values.contains(status.values[*row]) {
                    values.push(status.values[*row].clone());
                }
            }
            // What has had all its attempts may be left out of any value.
            let is_other = |row: &usize| {
                values.contains(status.values[*row]) && self.is_spent(*row) != Some(true)
            };
            if values.len() > 1 && !others.iter().any(is_other) {
                all.push(values);
            }
        }
        all
    }

    /// The rows of the sample for which the condition of an index holds, and the others.
    fn part(&self, part: usize) -> (Vec<usize>, Vec<usize>) {
        let holds = |row: &usize| self.sample.parts[*row][part];
        (0..self.rows()).partition(holds)
    }
}
