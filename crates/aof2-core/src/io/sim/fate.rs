//! What a seed does to what was not synced.
//!
//! Independent coin tosses alone would almost never lose exactly one sector of a
//! thousand, or all but one, or everything past a point, and those are the cuts
//! that break logs. So a random seed first draws a pattern, for all files or for
//! each, and tosses coins within it.

use super::rng::Rng;

/// What may happen at a power cut. The default is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashOptions {
    /// Sectors may end up part old, part new; otherwise the disk writes them whole.
    pub tear_sectors: bool,
    /// Directory changes may be lost before `sync_dir`; otherwise none is, as on a
    /// file system that journals them in order.
    pub lose_names: bool,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self { tear_sectors: true, lose_names: true }
    }
}

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Lose,
    Keep,
    /// Sectors before the point survive, the one at it is torn.
    KeepBefore,
    /// Sectors after the point survive: the disk wrote the end first.
    KeepAfter,
    AllButOne,
    OnlyOne,
    Scatter {
        keep_percent: u64,
        tear_percent: u64,
    },
}

impl Pattern {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(10) {
            0 => Self::Lose,
            1 => Self::Keep,
            2 => Self::KeepBefore,
            3 => Self::KeepAfter,
            4 => Self::AllButOne,
            5 => Self::OnlyOne,
            _ => Self::Scatter {
                keep_percent: rng.pick([5, 25, 50, 75, 95]),
                tear_percent: rng.pick([0, 5, 30]),
            },
        }
    }
}

/// The decisions of one seed.
pub(super) struct Fates {
    rng: Rng,
    options: CrashOptions,
    names_kept_percent: u64,
    /// `None`: every file draws its own.
    pattern: Option<Pattern>,
    keeps_lies: bool,
}

impl Fates {
    pub(super) fn new(seed: u64, options: CrashOptions) -> Self {
        let mut rng = Rng::new(seed);
        let (pattern, names_kept_percent) = match seed {
            0 => (Some(Pattern::Lose), 0),
            1 => (Some(Pattern::Keep), 100),
            2 => (Some(Pattern::Lose), 100),
            3 => (Some(Pattern::Keep), 0),
            _ => {
                let shared = rng.percent(50).then(|| Pattern::draw(&mut rng));
                (shared, rng.pick([0, 20, 50, 50, 80, 100]))
            }
        };
        Self { rng, options, names_kept_percent, pattern, keeps_lies: seed == 1 }
    }

    pub(super) fn keeps_name(&mut self) -> bool {
        !self.options.lose_names || self.rng.percent(self.names_kept_percent)
    }

    pub(super) fn for_file(&self, index: usize, dirty_sector_count: usize) -> FileFate {
        let mut rng = self.rng.fork(index as u64);
        let pattern = self.pattern.unwrap_or_else(|| Pattern::draw(&mut rng));
        let point = rng.below(dirty_sector_count as u64) as usize;
        FileFate {
            rng,
            pattern,
            point,
            next: 0,
            tears: self.options.tear_sectors,
            keeps_lies: self.keeps_lies,
        }
    }
}

/// What becomes of one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorFate {
    Lost,
    Kept,
    /// Words whose bit is set are new.
    Torn {
        new_words: u64,
    },
}

/// The decisions of one seed for one file; asked once per dirty sector, in order.
pub(super) struct FileFate {
    rng: Rng,
    pattern: Pattern,
    point: usize,
    next: usize,
    tears: bool,
    keeps_lies: bool,
}

impl FileFate {
    pub(super) fn keeps_len(&mut self) -> bool {
        match self.pattern {
            Pattern::Lose => false,
            Pattern::Keep => true,
            _ => self.rng.percent(50),
        }
    }

    pub(super) fn next_sector(&mut self, is_lie: bool) -> SectorFate {
        let ordinal = self.next;
        self.next += 1;
        if is_lie && !self.keeps_lies {
            return SectorFate::Lost;
        }
        let fate = match self.pattern {
            Pattern::Lose => SectorFate::Lost,
            Pattern::Keep => SectorFate::Kept,
            Pattern::KeepBefore | Pattern::KeepAfter if ordinal == self.point => self.tear(),
            Pattern::KeepBefore => kept_if(ordinal < self.point),
            Pattern::KeepAfter => kept_if(ordinal > self.point),
            Pattern::AllButOne => kept_if(ordinal != self.point),
            Pattern::OnlyOne => kept_if(ordinal == self.point),
            Pattern::Scatter { tear_percent, .. } if self.rng.percent(tear_percent) => self.tear(),
            Pattern::Scatter { keep_percent, .. } => kept_if(self.rng.percent(keep_percent)),
        };
        match fate {
            SectorFate::Torn { .. } if !self.tears => kept_if(self.rng.percent(50)),
            other => other,
        }
    }

    fn tear(&mut self) -> SectorFate {
        let at = 1 + self.rng.below(63);
        let low = (1_u64 << at) - 1;
        let new_words = match self.rng.below(3) {
            0 => low,
            1 => !low,
            _ => self.rng.next(),
        };
        SectorFate::Torn { new_words }
    }
}

fn kept_if(kept: bool) -> SectorFate {
    if kept { SectorFate::Kept } else { SectorFate::Lost }
}
