//! The kinds of background work of a manager. They do not wait for each other: a slow
//! network must not keep the local tiers waiting, nor a scrub an upload.

use std::time::Duration;

use tokio::sync::Notify;

use super::archive::ColdJob;
use super::coordinator::Coordinator;
use super::jobs::Job;
use super::scrub::ScrubJob;

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Segments between the local tiers.
    Moves,
    /// What concerns the object store.
    Cold,
    /// Checks of every copy.
    Scrub,
}

/// What is to be done in a lane.
pub(crate) struct Look {
    /// Due now, most urgent first; whoever looks does as many as are allowed at once.
    pub(crate) jobs: Vec<Work>,
    /// When to look again if nobody rings before; `None`: never.
    pub(crate) pause: Option<Duration>,
}

/// A job of any lane.
#[derive(Debug)]
pub(crate) enum Work {
    Move(Job),
    Cold(ColdJob),
    Scrub(ScrubJob),
}

impl Work {
    /// Does it on this thread.
    pub(crate) fn run(self) {
        match self {
            Self::Move(job) => job.run(),
            Self::Cold(job) => job.run(),
            Self::Scrub(job) => job.run(),
        }
    }
}

/// Each rings when there may be something to do in its lane.
#[derive(Debug, Default)]
pub(super) struct Bells {
    moves: Notify,
    cold: Notify,
    scrub: Notify,
}

impl Bells {
    fn of(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::Moves => &self.moves,
            Lane::Cold => &self.cold,
            Lane::Scrub => &self.scrub,
        }
    }
}

impl Coordinator {
    /// Those in which there can be something to do.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane> {
        let cold = self.cold().is_some().then_some(Lane::Cold);
        let scrub = (self.config().scrub_interval_ms > 0).then_some(Lane::Scrub);
        [Some(Lane::Moves), cold, scrub].into_iter().flatten()
    }

    /// How many jobs of a lane run at the same time.
    pub(crate) fn at_once(&self, lane: Lane) -> usize {
        match lane {
            Lane::Moves => self.config().jobs_max,
            Lane::Cold => self.config().uploads_max,
            // The budget is that of all streams together.
            Lane::Scrub => 1,
        }
    }

    /// What should be done now.
    pub(crate) fn look(&self, lane: Lane) -> Look {
        // One time for both: what becomes due in between would be seen by neither.
        let now_ms = self.now_ms();
        let (jobs, next_ms): (Vec<Work>, _) = match lane {
            Lane::Moves => {
                let jobs = self.plan_moves(now_ms).into_iter().map(Work::Move).collect();
                (jobs, self.next_move_ms(now_ms))
            }
            Lane::Cold => {
                let plan = self.plan_cold_at(now_ms);
                (plan.jobs.into_iter().map(Work::Cold).collect(), plan.next_ms)
            }
            Lane::Scrub => {
                let jobs = self.plan_scrub(now_ms).into_iter().map(Work::Scrub).collect();
                (jobs, self.next_scrub_ms(now_ms))
            }
        };
        let pause = next_ms.map(|ms| Duration::from_millis(ms.saturating_sub(now_ms).max(1)));
        Look { jobs, pause }
    }

    /// Completes when there may be something to do.
    pub(crate) async fn rung(&self, lane: Lane) {
        self.bells.of(lane).notified().await;
    }

    pub(super) fn ring_lane(&self, lane: Lane) {
        self.bells.of(lane).notify_one();
    }

    /// Something changed that may concern the local tiers and the object store.
    pub(super) fn ring(&self) {
        self.ring_lane(Lane::Moves);
        self.ring_lane(Lane::Cold);
    }
}
