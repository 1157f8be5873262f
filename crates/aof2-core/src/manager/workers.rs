//! The background tasks of one stream. Each sleeps until its bell rings, so an
//! idle stream costs nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::log::{Stream, Workers};
use crate::tier::Coordinator;

/// Dropping it stops the tasks once they are done with what they are doing.
#[derive(Debug)]
pub(super) struct StreamWorkers {
    _stop: watch::Sender<()>,
}

impl Workers for StreamWorkers {}

pub(super) fn start(handle: &Handle, stream: &Arc<Stream>) -> StreamWorkers {
    let (stop, stopped) = watch::channel(());
    let spawn = handle;
    spawn.spawn(flush_worker(Arc::clone(stream), stopped.clone()));
    spawn.spawn(prepare_worker(Arc::clone(stream), stopped.clone()));
    spawn.spawn(finalize_worker(Arc::clone(stream), stopped.clone()));
    spawn.spawn(manifest_worker(Arc::clone(stream), stopped));
    StreamWorkers { _stop: stop }
}

/// Completes when the workers' owner is gone.
async fn stop(stopped: &mut watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

/// Runs blocking work off the runtime's own threads. `None` when the runtime is
/// shutting down.
async fn blocking<T: Send + 'static>(
    stream: &Arc<Stream>,
    work: impl FnOnce(&Stream) -> T + Send + 'static,
) -> Option<T> {
    let stream = Arc::clone(stream);
    tokio::task::spawn_blocking(move || work(&stream)).await.ok()
}

/// How soon a flush that failed for want of space is tried again.
const FLUSH_RETRY: Duration = Duration::from_millis(500);

async fn flush_worker(stream: Arc<Stream>, mut stopped: watch::Receiver<()>) {
    let interval = stream.config.flush_interval();
    loop {
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.bells.flush_now.notified() => {}
            () = stream.bells.flush_timer.notified() => {
                let Some(interval) = interval else { continue };
                tokio::select! {
                    () = stop(&mut stopped) => return,
                    () = stream.bells.flush_now.notified() => {}
                    () = tokio::time::sleep(interval) => {}
                }
            }
        }
        match blocking(&stream, Stream::flush_in_background).await {
            None => return,
            // Poisoned, which every later call reports; or the directory is full, which
            // may pass.
            Some(Err(_)) if !stream.is_stopped() => {
                tokio::select! {
                    () = stop(&mut stopped) => return,
                    () = tokio::time::sleep(FLUSH_RETRY) => stream.bells.flush_now.notify_one(),
                }
            }
            Some(_) => {}
        }
    }
}

/// A stream without appends for this long does not need its spare.
const SPARE_IDLE: Duration = Duration::from_secs(30);

async fn prepare_worker(stream: Arc<Stream>, mut stopped: watch::Receiver<()>) {
    // A recovered segment's pages were not touched yet.
    let _ = blocking(&stream, Stream::fault_in_active).await;
    let _ = blocking(&stream, Stream::remove_unused).await;
    loop {
        let seen = stream.appended.count();
        let has_spare = stream.rollover.spare_count() > 0;
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.bells.spare.notified() => {}
            () = tokio::time::sleep(SPARE_IDLE), if has_spare => {
                if stream.appended.count() == seen {
                    let _ = blocking(&stream, Stream::release_idle_spares).await;
                }
                continue;
            }
        }
        loop {
            match blocking(&stream, Stream::prepare_step).await {
                None => return,
                Some(Ok(true)) => {}
                // The append that needs the spare gets the error and asks again.
                Some(Ok(false) | Err(_)) => break,
            }
        }
    }
}

async fn finalize_worker(stream: Arc<Stream>, mut stopped: watch::Receiver<()>) {
    loop {
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.bells.seal.notified() => {}
        }
        loop {
            match blocking(&stream, Stream::finalize_step).await {
                None => return,
                Some(Ok(true)) => {}
                Some(Ok(false) | Err(_)) => break,
            }
        }
        if !stream.config.retention.keeps_everything() {
            let retained = blocking(&stream, |s| s.apply_retention(&s.config.retention)).await;
            if let Some(Err(error)) = retained {
                tracing::warn!(%error, "retention failed");
            }
        }
    }
}

/// Commits, rotates, uploads and takes snapshots when they are due.
async fn manifest_worker(stream: Arc<Stream>, mut stopped: watch::Receiver<()>) {
    let mut due = None;
    loop {
        let timer = async {
            match due {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.bells.manifest.notified() => {}
            () = timer => {}
        }
        match blocking(&stream, Stream::tend_manifest).await {
            None => return,
            Some(next) => due = next,
        }
    }
}

/// Dropping it stops the coordinator's task once its jobs are done.
#[derive(Debug)]
pub(super) struct CoordinatorWorker {
    _stop: watch::Sender<()>,
}

pub(super) fn coordinate(handle: &Handle, coordinator: &Arc<Coordinator>) -> CoordinatorWorker {
    let (stop, stopped) = watch::channel(());
    if coordinator.cold().is_some() {
        handle.spawn(archive_worker(Arc::clone(coordinator), stopped.clone()));
    }
    if coordinator.config().scrub_interval_ms > 0 {
        handle.spawn(scrub_worker(Arc::clone(coordinator), stopped.clone()));
    }
    handle.spawn(coordinator_worker(Arc::clone(coordinator), stopped));
    CoordinatorWorker { _stop: stop }
}

/// Talks to the object store, a few requests at a time.
async fn archive_worker(coordinator: Arc<Coordinator>, mut stopped: watch::Receiver<()>) {
    loop {
        let due = coordinator.pause_cold();
        let timer = async {
            match due {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = coordinator.rung_cold() => {}
            () = timer => {}
        }
        while let jobs = coordinator.plan_cold()
            && !jobs.is_empty()
        {
            let mut running = JoinSet::new();
            for job in jobs.into_iter().take(coordinator.config().uploads_max) {
                running.spawn_blocking(|| job.run());
            }
            while let Some(ended) = running.join_next().await {
                // The runtime is shutting down.
                if ended.is_err_and(|error| error.is_cancelled()) {
                    return;
                }
            }
            if stopped.has_changed().is_err() {
                return;
            }
        }
    }
}

/// Checks every copy when it is time, one segment after the other: the budget is that of
/// all streams together.
async fn scrub_worker(coordinator: Arc<Coordinator>, mut stopped: watch::Receiver<()>) {
    loop {
        let due = coordinator.pause_scrub();
        let timer = async {
            match due {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = coordinator.rung_scrub() => {}
            () = timer => {}
        }
        while let Some(job) = coordinator.plan_scrub() {
            let ended = tokio::task::spawn_blocking(|| job.run()).await;
            // The runtime is shutting down.
            if ended.is_err_and(|error| error.is_cancelled()) || stopped.has_changed().is_err() {
                return;
            }
        }
    }
}

/// Moves segments between tiers, a few at a time.
async fn coordinator_worker(coordinator: Arc<Coordinator>, mut stopped: watch::Receiver<()>) {
    loop {
        let due = coordinator.pause();
        let timer = async {
            match due {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = coordinator.rung() => {}
            () = timer => {}
        }
        // A plan is as old as its first job: look again after every few.
        while let jobs = coordinator.plan()
            && !jobs.is_empty()
        {
            let mut running = JoinSet::new();
            for job in jobs.into_iter().take(coordinator.config().jobs_max) {
                running.spawn_blocking(|| job.run());
            }
            while let Some(ended) = running.join_next().await {
                // The runtime is shutting down.
                if ended.is_err_and(|error| error.is_cancelled()) {
                    return;
                }
            }
            if stopped.has_changed().is_err() {
                return;
            }
        }
    }
}
