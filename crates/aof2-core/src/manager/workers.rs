//! The background tasks of streams, and of the tiers they share. Each sleeps until it is
//! notified, so an idle stream costs nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::aof::Workers;
use crate::tier::{Coordinator, Lane};
use crate::write::Stream;

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

/// Completes after this time; `None`: never.
async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
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
    let interval = stream.config().flush_interval();
    loop {
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.wakeups().flush_now.notified() => {}
            () = stream.wakeups().flush_timer.notified() => {
                let Some(interval) = interval else { continue };
                tokio::select! {
                    () = stop(&mut stopped) => return,
                    () = stream.wakeups().flush_now.notified() => {}
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
                    () = tokio::time::sleep(FLUSH_RETRY) => stream.wakeups().flush_now.notify_one(),
                }
            }
            Some(_) => {}
        }
    }
}

/// A stream without appends for this long does not need its spare.
const SPARE_IDLE: Duration = Duration::from_secs(30);

async fn prepare_worker(stream: Arc<Stream>, mut stopped: watch::Receiver<()>) {
    let _ = blocking(&stream, Stream::remove_unused).await;
    loop {
        let seen = stream.appended().count();
        let has_spare = stream.has_spare();
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.wakeups().spare.notified() => {}
            () = stream.wakeups().pages.notified() => {
                let _ = blocking(&stream, Stream::fault_in_active).await;
                continue;
            }
            () = tokio::time::sleep(SPARE_IDLE), if has_spare => {
                if stream.appended().count() == seen {
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
            () = stream.wakeups().seal.notified() => {}
        }
        loop {
            match blocking(&stream, Stream::finalize_step).await {
                None => return,
                Some(Ok(true)) => {}
                Some(Ok(false) | Err(_)) => break,
            }
        }
        if !stream.config().retention.keeps_everything() {
            let retained = blocking(&stream, |s| s.apply_retention(&s.config().retention)).await;
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
        tokio::select! {
            () = stop(&mut stopped) => return,
            () = stream.wakeups().manifest.notified() => {}
            () = sleep(due) => {}
        }
        match blocking(&stream, |stream| stream.store().maintain_manifest()).await {
            None => return,
            Some(next) => due = next,
        }
    }
}

/// Dropping it stops the coordinator's tasks once their jobs are done.
#[derive(Debug)]
pub(super) struct CoordinatorWorkers {
    _stop: watch::Sender<()>,
}

pub(super) fn coordinate(handle: &Handle, coordinator: &Arc<Coordinator>) -> CoordinatorWorkers {
    let (stop, stopped) = watch::channel(());
    for lane in coordinator.lanes() {
        handle.spawn(lane_worker(Arc::clone(coordinator), lane, stopped.clone()));
    }
    CoordinatorWorkers { _stop: stop }
}

/// Runs what the coordinator says is due in a lane, a few jobs at a time.
async fn lane_worker(coordinator: Arc<Coordinator>, lane: Lane, mut stopped: watch::Receiver<()>) {
    let mut running = JoinSet::new();
    loop {
        let is_free = match lane {
            // These are planned together: one more would make too much room.
            Lane::Moves => running.is_empty(),
            Lane::Cold | Lane::Scrub => running.len() < coordinator.at_once(lane),
        };
        let mut pause = None;
        if is_free {
            let due = coordinator.due(lane);
            for job in due.jobs {
                if running.len() >= coordinator.at_once(lane) {
                    break;
                }
                running.spawn_blocking(|| job.run());
            }
            pause = due.pause;
        }
        let has_room = is_free && running.len() < coordinator.at_once(lane);
        tokio::select! {
            () = stop(&mut stopped) => break,
            Some(ended) = running.join_next() => {
                // The runtime is shutting down.
                if ended.is_err_and(|error| error.is_cancelled()) {
                    return;
                }
            }
            () = coordinator.notified(lane), if has_room => {}
            () = sleep(pause), if has_room => {}
        }
    }
    while running.join_next().await.is_some() {}
}
