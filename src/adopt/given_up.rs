//! The rows that are not done, and yet nobody comes back to: deleted, or given up after so many attempts.

use toml::Value as Toml;

use super::profile::Profile;
use super::propose::{Evidence, Pending, bare};
use super::words::Word;
use super::{Choice, Proposal, Question, Step};
use crate::record::counted;
use crate::store::{Holds, quoted_if_needed};
use crate::time::DAY;

impl<'a> Evidence<'a> {
    /// The most attempts of a row, counted as the counter counts: retries, or attempts.
    pub fn most(&self) -> Option<&Profile<'a>> {
        let counts_retries = |it: &Profile<'a>| {
            let name = it.name().to_lowercase();
            name.contains("retr") || name.contains("fail")
        };
        let is_of_retries = counts_retries(self.counter()?);
        let most = self.only(Word::MostAttempts, Profile::counts)?;
        (counts_retries(most) == is_of_retries).then_some(most)
    }

    /// Narrows the rows that are not done: not what is marked as deleted, and not what has had all its
    /// attempts, where nothing else says that it is given up.
    pub fn narrow(&self, pending: &mut Pending, proposal: &mut Proposal) {
        let deleted = self.not_deleted().filter(|it| !pending.conditions.contains(it));
        pending.conditions.extend(deleted);
        let counter = self.counter().zip(self.most());
        let mut archived = None;
        if let Some((counter, most)) = counter.filter(|_| !pending.archives) {
            let count = quoted_if_needed(counter.name());
            let count =
                if counter.column.not_null { count } else { format!("coalesce({count}, 0)") };
            let limit = quoted_if_needed(most.name());
            pending.conditions.push(format!("{count} < {limit}"));
            let limits: Vec<_> = (0..self.rows()).map(|row| most.number_at(row)).collect();
            // A constant can be set, and a column cannot be set to another.
            if let Some(Some(only)) = limits.first()
                && limits.iter().all(|it| *it == Some(*only))
            {
                let condition = format!("{} AND {count} >= {limit}", pending.open);
                archived = Some([
                    format!("where_archived = {}", Toml::from(condition)),
                    format!("on_archive = {{ {} = {only} }}", bare(counter.name())),
                ]);
                pending.archives = true;
            }
        }
        if !pending.conditions.is_empty() {
            let why = "the rows that are neither done, deleted, given up nor in somebody's hand";
            let conditions = pending.conditions.join(" AND ");
            proposal.line(why, format!("where = {}", Toml::from(conditions)));
        }
        if let Some(lines) = archived {
            proposal.step(Step::Comment("given up: what has had its most attempts".into()));
            proposal.step(Step::Lines(lines.into()));
        }
    }

    /// Rows that wait, have had as many attempts as any, and are left since: somebody has given them
    /// up. Where rows of different ages have all had as many, that is the most that they get.
    pub fn give_up(&self, pending: &mut Pending, proposal: &mut Proposal) {
        let Some((counter, now)) = self.counter().zip(self.newest()) else { return };
        let tried = |row: &usize| counter.number_at(*row).filter(|count| *count > 0);
        let Some(most) = pending.waiting.iter().filter_map(tried).max() else { return };
        let spent = pending.waiting.iter().copied().filter(|row| tried(row) == Some(most));
        let spent: Vec<_> = spent.collect();
        let due = self.date_of(Word::Due);
        let is_to_come = |row: &usize| due.and_then(|it| it.instant_at(*row)) > Some(now);
        if pending.archives || self.most().is_some() || spent.iter().any(is_to_come) {
            return;
        }
        let created = |row: &usize| self.date_of(Word::Created)?.instant_at(*row);
        let ages: Vec<_> = spent.iter().filter_map(created).map(|at| now.0 - at.0).collect();
        let (least, oldest) = (ages.iter().min(), ages.iter().max());
        let are_of_all_ages =
            // Where waits double, so do the ages of those with equal counts.
            least.zip(oldest).is_some_and(|(least, oldest)| *least > DAY && *oldest > 4 * *least);
        let none_had_more = pending.done.iter().filter_map(tried).all(|count| count <= most);
        let is_most = spent.len() > 2 && most > 1 && are_of_all_ages && none_had_more;
        let (name, rows) = (counter.name(), counted(spent.len() as u64, "row"));
        let count = quoted_if_needed(name);
        let count = if counter.column.not_null { count } else { format!("coalesce({count}, 0)") };
        let condition = format!("{count} < {most}");
        if is_most {
            pending.archives = true;
            proposal.step(Step::Comment(format!(
                "given up: {rows} of different ages have had {most} attempts, and none has had more"
            )));
            proposal.step(Step::Lines(vec![
                format!(
                    "where_archived = {}",
                    Toml::from(format!("{} AND {count} >= {most}", pending.open))
                ),
                format!("on_archive = {{ {} = {most} }}", bare(name)),
            ]));
            return pending.conditions.push(condition);
        }
        // Where no date says when somebody was at them last, old rows may be left as well.
        let touched = [Word::Updated, Word::Tried, Word::Failed];
        let tells = touched.iter().any(|word| self.all(*word).any(Profile::is_date));
        let may_be_left = !tells && least.is_some_and(|least| *least > DAY);
        if !may_be_left && !self.are_left(&spent, now) {
            return;
        }
        let conditions = [&pending.conditions[..], &[condition]].concat().join(" AND ");
        proposal.step(Step::Question(Question {
            about: "which records are given up?".into(),
            why: format!("{rows} with {name} = {most} wait, and nobody has touched them for long"),
            choices: vec![
                Choice::new(
                    vec![format!("where = {}", Toml::from(conditions))],
                    format!("those with {name} = {most}: it replaces a where above"),
                ),
                Choice::new(Vec::new(), "none: they are tried again"),
            ],
        }));
    }

    /// Rows that are marked as deleted are nobody's.
    fn not_deleted(&self) -> Option<String> {
        let is_mark =
            |it: &&Profile<'a>| ["deleted", "is_deleted"].contains(&&*it.name().to_lowercase());
        let mark = self.profiles.iter().find(is_mark);
        let date = self.all(Word::Deleted).find(|it| it.is_date() && !it.is_full());
        match (mark, date) {
            (Some(it), _) if it.column.holds == Holds::Booleans => {
                Some(format!("NOT {}", quoted_if_needed(it.name())))
            }
            (Some(it), _) if it.counts() => Some(format!("{} = 0", quoted_if_needed(it.name()))),
            (_, Some(it)) => Some(format!("{} IS NULL", quoted_if_needed(it.name()))),
            (_, None) => None,
        }
    }
}
