//! From facts to problems: each segment and its copies by themselves, then all of them
//! as a chain.
//!
//! Whatever looks wrong is looked at again before it is reported, because a writer
//! may have been in the middle of it. What the log's own protocol rules out cannot
//! be a writer's doing: a segment that has two named successors has its footer, a
//! record below the durable watermark is complete, a record behind a published one
//! is published.

use std::path::PathBuf;

use super::chain::{CheckedLog, Missing, pattern};
use super::ends::{Body, Ends};
use super::facts::Facts;
use super::inventory::{Claim, Inventory, LOOKS_MAX, find_now, list_ids, pause};
use super::judge::Judge;
use super::report::{Problem, ProblemKind, Severity, VerifyProgress};
use super::{Progress, tell};
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::io::Storage;
use crate::store::Layout;
use crate::sync::Position;

/// A segment and what is wrong with it.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) facts: Facts,
    /// What is wrong with it and with its copies.
    pub(super) problems: Vec<Problem>,
    /// Whether `facts` are those of something that must be written anew.
    pub(super) is_damaged: bool,
    /// Whether records are cut off that had never been durable.
    pub(super) is_torn: bool,
    /// Other files of the segment that are in order.
    pub(super) copies: Vec<PathBuf>,
    /// Those that are damaged, and worth less than what `facts` tell of.
    pub(super) worse: Vec<PathBuf>,
}

impl Checked {
    fn has_damage(&self) -> bool {
        self.problems.iter().any(|p| p.severity == Severity::Damage)
    }
}

pub(super) struct Checker<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) layout: &'a Layout,
    /// Whether the writer lock is held, so that nothing can change.
    pub(super) exclusive: bool,
}

/// What surrounds a segment.
struct Place<'a> {
    previous: Option<&'a Facts>,
    next: Option<&'a Ends>,
    /// Segments behind it when the directories were listed.
    later_count: usize,
}

impl Checker<'_> {
    pub(super) fn run(&self, progress: Progress<'_>) -> Result<CheckedLog> {
        let mut look = 1;
        loop {
            let inventory = Inventory::take(self.storage, self.layout, self.exclusive)?;
            let mut log = self.check_segments(inventory, progress)?;
            let ids = list_ids(self.storage, self.layout)?;
            // What retention removed meanwhile is no longer part of the log.
            let oldest = ids.iter().min().copied().unwrap_or(u32::MAX);
            log.segments.retain(|s| s.facts.ends.index() >= oldest);
            let newest = log.inventory.segments.last().map(Ends::index);
            log.is_outrun = !ids.is_empty() && newest.is_some_and(|newest| newest < oldest);
            let first = log.inventory.segments.first().map(Ends::index);
            let is_early = first.is_some_and(|first| oldest < first);
            let appeared = log.holes().any(|hole| ids.iter().any(|id| hole.contains(id)))
                || (is_early && log.inventory.may_be_written);
            if (appeared || log.is_outrun) && look < LOOKS_MAX {
                pause(look);
                look += 1;
                continue;
            }
            let place = |segment_index| pattern(self.layout, segment_index);
            log.check_chain(&Missing { noun: "segment file", place: &place });
            return Ok(log);
        }
    }

    fn check_segments(&self, inventory: Inventory, progress: Progress<'_>) -> Result<CheckedLog> {
        let all = &inventory.segments;
        let own = |ends: &Ends| ends.sealed().map_or(ends.file_len, |f| f.durable_bytes);
        let bytes =
            |ends: &Ends| own(ends) + inventory.copies_of(ends.index()).map(own).sum::<u64>();
        let bytes_total = all.iter().map(bytes).sum();
        let at = |segment_id, segments_done: usize, bytes_done| VerifyProgress {
            segment_id,
            segments_done: segments_done as u64,
            segments_total: all.len() as u64,
            bytes_done,
            bytes_total,
        };
        let mut bytes_done = 0;
        let mut checked: Vec<Checked> = Vec::with_capacity(all.len());
        for (i, ends) in all.iter().enumerate() {
            let segment_id = ends.name.segment_id.as_u64();
            tell(progress, at(segment_id, i, bytes_done))?;
            let previous = checked.last().map(|c| &c.facts);
            let place = Place {
                previous: previous.filter(|p| p.ends.index() + 1 == ends.index()),
                next: all.get(i + 1),
                later_count: all.len() - i - 1,
            };
            let here = self.stable_check(&inventory, ends, &place)?;
            checked.extend(match here {
                Some(here) => Some(self.check_copies(&inventory, here, &place)?),
                None => None,
            });
            bytes_done += bytes(ends);
        }
        if let Some(last) = all.last() {
            let segment_id = last.name.segment_id.as_u64();
            tell(progress, at(segment_id, all.len(), bytes_done))?;
        }
        Ok(CheckedLog { inventory, segments: checked, chain: Vec::new(), is_outrun: false })
    }

    /// Checks a segment until nothing is wrong, or the same twice in a row. One that
    /// moves meanwhile is followed to where it is. `None` when it is gone.
    fn stable_check(
        &self,
        inventory: &Inventory,
        ends: &Ends,
        place: &Place<'_>,
    ) -> Result<Option<Checked>> {
        let mut last: Option<Checked> = None;
        let mut ends = ends.clone();
        for look in 1..=LOOKS_MAX {
            let mut checked = match self.check(inventory, &ends, place) {
                Err(error) if error.is_not_found() => match self.find_now(inventory, &ends)? {
                    Some(now) => {
                        ends = now;
                        last = None;
                        continue;
                    }
                    None => return Ok(None),
                },
                other => other?,
            };
            if checked.problems.is_empty() || self.exclusive {
                return Ok(Some(checked));
            }
            if let Some(last) = &last {
                let same = last.problems == checked.problems;
                checked.problems.retain(|p| last.problems.contains(p));
                checked.is_damaged &= must_rewrite(&checked.problems);
                if same {
                    return Ok(Some(checked));
                }
            }
            last = Some(checked);
            pause(look);
        }
        Ok(last)
    }

    fn find_now(&self, inventory: &Inventory, ends: &Ends) -> Result<Option<Ends>> {
        find_now(self.storage, self.layout, ends.index(), inventory.identity.format)
    }

    /// Checks the compressed copies of a segment as well. If one of them is whole, or
    /// holds more than the file that readers read, the segment is judged by it: a repair
    /// will keep that one.
    fn check_copies(
        &self,
        inventory: &Inventory,
        mut here: Checked,
        place: &Place<'_>,
    ) -> Result<Checked> {
        for copy in inventory.copies_of(here.facts.ends.index()) {
            if copy.path == here.facts.ends.path {
                continue;
            }
            let gone = AofError::is_not_found;
            let mut copy = match self.check(inventory, copy, place) {
                // Moved on, or removed with its segment.
                Err(error) if gone(&error) => continue,
                copy => copy?,
            };
            if !copy.has_damage() && !here.has_damage() {
                copy.problems.extend(differs(&here.facts, &copy.facts));
            }
            let kept = |checked: &Checked| checked.facts.walk.kept_count();
            let is_better = here.is_damaged && (!copy.has_damage() || kept(&copy) > kept(&here));
            if is_better {
                // Readers read the other one: its problems stay as they are.
                std::mem::swap(&mut here.facts, &mut copy.facts);
                here.worse.push(copy.facts.ends.path);
                here.is_damaged = copy.is_damaged;
                here.is_torn = false;
                here.problems.extend(copy.problems.into_iter().map(|p| of_copy(&here.facts, p)));
            } else if copy.has_damage() {
                here.worse.push(copy.facts.ends.path);
                here.problems.extend(copy.problems.into_iter().map(|p| of_copy(&here.facts, p)));
            } else {
                here.copies.push(copy.facts.ends.path);
            }
        }
        Ok(here)
    }

    fn check(&self, inventory: &Inventory, ends: &Ends, place: &Place<'_>) -> Result<Checked> {
        let stream_id = inventory.identity.stream_id;
        let format = inventory.identity.format;
        let load = |e: &Ends| e.reload(self.storage, format);
        // The claim before the bytes: what it covers is there by then.
        let claim = Claim::load(self.storage, self.layout, stream_id);
        let ends = load(ends)?;
        let next = match place.next.map(|next| (next, load(next))) {
            None => None,
            Some((next, Err(error))) if error.is_not_found() => self.find_now(inventory, next)?,
            Some((_, loaded)) => Some(loaded?),
        };
        let mut hints = ends.hints(self.storage, stream_id, next.as_ref());
        hints.previous_end = match place.previous {
            Some(previous) => Some(previous.walk.end_offset),
            // Every log begins at 0.
            None => (ends.index() == 0).then_some(0),
        };
        let claimed = claim.body.map(|body| (Position::from_u64(body.durable_position), body));
        hints.claimed = claimed
            .filter(|(position, _)| position.segment_index() == ends.index())
            .map(|(position, body)| (position.end(), body.durable_count));
        let next_is_sealed = next.as_ref().is_some_and(|n| n.sealed().is_some());
        let is_away = !matches!(ends.body, Body::File);
        // Only sealed segments are compressed.
        let must_be_sealed = place.later_count >= 2
            || next_is_sealed
            || is_away
            || inventory.copies_of(ends.index()).next().is_some();
        let mut facts = Facts::gather(self.storage, ends, stream_id, &hints)?;
        let mut durable = u64::MAX;
        if facts.ends.sealed().is_none() && !must_be_sealed {
            durable = self.proven(&facts, next.as_ref(), stream_id)?.max(claim.durable_count());
        }
        let torn = facts.walk.regions.iter().find(|r| r.records.start >= durable).cloned();
        let mut torn_fault = facts.walk.stopped.map(|fault| (facts.walk.end, fault));
        if let Some(region) = &torn {
            // What lies behind is no part of the log, as recovery will see it.
            hints.required_end = Some(region.bytes.start);
            hints.footer_count = None;
            hints.next_first = None;
            hints.claimed = None;
            facts = Facts::gather(self.storage, facts.ends, stream_id, &hints)?;
            torn_fault = Some((region.bytes.start, region.fault));
        }
        let judge = Judge { facts: &facts, durable, must_be_sealed, claim: &claim, inventory };
        let mut problems = judge.problems(place.later_count);
        if let Some((at, fault)) = torn_fault.filter(|_| facts.ends.sealed().is_none()) {
            problems.extend(judge.torn_tail(at, fault, torn.is_some()));
        }
        Ok(Checked {
            is_torn: torn.is_some(),
            is_damaged: must_rewrite(&problems),
            facts,
            problems,
            copies: Vec::new(),
            worse: Vec::new(),
        })
    }

    /// What the records of the unsealed end prove to have been durable.
    fn proven(&self, facts: &Facts, next: Option<&Ends>, stream_id: StreamId) -> Result<u64> {
        let own = facts.walk.proven;
        let Some(next) = next.filter(|_| !facts.walk.regions.is_empty()) else { return Ok(own) };
        let hints = next.hints(self.storage, stream_id, None);
        let next = Facts::gather(self.storage, next.clone(), stream_id, &hints)?;
        Ok(own.max(next.walk.proven))
    }
}

/// Whether a segment with these problems must be written anew.
fn must_rewrite(problems: &[Problem]) -> bool {
    problems.iter().any(|p| p.severity == Severity::Damage && p.kind != ProblemKind::Name)
}

/// A problem of a copy that nobody reads: no record is affected.
fn of_copy(facts: &Facts, problem: Problem) -> Problem {
    let none = facts.walk.first_offset..facts.walk.first_offset;
    Problem { kind: ProblemKind::Copy, records: none, ..problem }
}

/// Why a copy is not one of this segment, although both are in order.
fn differs(file: &Facts, copy: &Facts) -> Option<Problem> {
    let known = |facts: &Facts| (facts.crc64, facts.walk.first_offset, facts.ends.name.base_offset);
    (known(file) != known(copy)).then(|| Problem {
        kind: ProblemKind::Copy,
        severity: Severity::Damage,
        path: copy.ends.path.clone(),
        offset: 0,
        records: file.walk.first_offset..file.walk.first_offset,
        detail: format!("it is not a copy of {}", file.ends.given),
    })
}
