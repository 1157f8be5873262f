//! Starting threads: the one place for it, used by the manager and by what cannot leave its
//! work to a manager, because there need not be one. `tests/layers.rs` fails if a thread or
//! a runtime is started elsewhere.
//!
//! | threads | started by | end |
//! |---|---|---|
//! | `aof2` | `manager`: a manager without a runtime of its caller | with the manager |
//! | `aof2-cold` | `object::blocking`: each client of an object store | with the last handle that uses the client |
//! | `aof2-fetch` | `store::windows`: reads that do not wait, at most two for each log | when nothing is left to fetch |
//! | `aof2-fetch-N` | `check::fetch_all`: a restore, at most four | with the restore |
//! | `aof2-catalog` | `catalog::writer`: each catalog that is open for writing | with the catalog |
//! | `aof2-checkpoint` | `catalog::writer`: while a checkpoint of it is written | with the checkpoint |
//!
//! None of them outlives what its user holds, so none needs to be stopped at the end of
//! the process. A forked child has none of them. [`OwnRuntime`] notices that itself; who
//! counts threads from [`start`] is reached only through handles that refuse a forked child.

use std::io;
use std::thread::{Builder, JoinHandle, Scope};

use tokio::runtime::{Builder as RuntimeBuilder, Handle, Runtime};

use super::ForkStamp;

/// Starts a thread that ends by itself.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Starts a thread that its user waits for.
pub(crate) fn start_joined(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Starts a thread that ends before the scope does.
pub(crate) fn start_within<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map(drop)
}

/// A runtime with threads of its own. It may be dropped anywhere, also inside a task of
/// another runtime and in a forked child.
#[derive(Debug)]
pub(crate) struct OwnRuntime {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    fork: ForkStamp,
}

impl OwnRuntime {
    /// Starts the threads, after `set` said how many there are and what else they drive.
    pub(crate) fn start(
        name: &str,
        set: impl FnOnce(&mut RuntimeBuilder) -> &mut RuntimeBuilder,
    ) -> io::Result<Self> {
        let mut builder = RuntimeBuilder::new_multi_thread();
        let runtime = set(builder.thread_name(name)).build()?;
        Ok(Self { runtime: Some(runtime), fork: ForkStamp::now() })
    }

    /// Where tasks are started. None in a forked child, where nobody would run them.
    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.runtime.as_ref().filter(|_| !self.fork.is_forked()).map(Runtime::handle)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        match self.fork.is_forked() {
            // A forked child has none of its threads, but maybe their locks.
            true => std::mem::forget(runtime),
            // Waiting for them would panic inside another runtime's task. What they still
            // do ends by itself.
            false => runtime.shutdown_background(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn threads_have_the_names_that_the_documentation_lists() {
        let (say, heard) = channel();
        let name = || std::thread::current().name().map(str::to_owned);
        let told = say.clone();
        start("aof2-fetch", move || told.send(name()).unwrap()).unwrap();
        assert_eq!(heard.recv().unwrap().as_deref(), Some("aof2-fetch"));
        std::thread::scope(|scope| {
            start_within(scope, "aof2-fetch-0", || say.send(name()).unwrap()).unwrap();
            assert_eq!(heard.recv().unwrap().as_deref(), Some("aof2-fetch-0"));
        });
        let runtime = OwnRuntime::start("aof2-cold", |r| r.worker_threads(1)).unwrap();
        runtime.handle().unwrap().spawn(async move { say.send(name()).unwrap() });
        assert_eq!(heard.recv().unwrap().as_deref(), Some("aof2-cold"));
    }

    #[test]
    fn a_runtime_may_be_dropped_inside_a_task_of_another() {
        let outer = OwnRuntime::start("outer", |r| r.worker_threads(1)).unwrap();
        let inner = OwnRuntime::start("inner", |r| r.worker_threads(1)).unwrap();
        let (say, heard) = channel();
        outer.handle().unwrap().spawn(async move {
            drop(inner);
            say.send(()).unwrap();
        });
        heard.recv().expect("the task ended without a panic");
    }
}
