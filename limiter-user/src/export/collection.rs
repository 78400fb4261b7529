//! Reading the kernel, once for all who ask at the same time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, sync::Mutex, task};

use crate::stats::snapshot::Snapshot;

/// For how long a reading is good enough.
const FRESH: Duration = Duration::from_secs(1);

/// What was read, and when.
#[derive(Debug)]
pub struct Reading {
    /// What was read.
    pub snapshot: Snapshot,
    /// When the reading was done, since the collection began. It does not follow changes of the clock.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
}

/// Readings, each shared by all who want one while it is made and for a second after that.
#[derive(Clone, Debug)]
pub struct Collection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    last: Mutex<Option<Arc<Reading>>>,
}

impl Default for Collection {
    fn default() -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            last: Mutex::new(None),
        }))
    }
}

impl Collection {
    /// The last reading, or a new one.
    pub async fn latest(&self) -> anyhow::Result<Arc<Reading>> {
        let inner = Arc::clone(&self.0);
        // A task of its own: a client that goes away does not end the reading that others wait for, nor does it
        // leave one behind while the next client begins another.
        tokio::spawn(async move { inner.latest().await }).await?
    }
}

impl Inner {
    async fn latest(&self) -> anyhow::Result<Arc<Reading>> {
        let mut last = self.last.lock().await;
        if let Some(reading) = last.as_ref()
            && self.begun.elapsed().saturating_sub(reading.at) < FRESH
        {
            return Ok(Arc::clone(reading));
        }
        let start = Instant::now();
        let runtime = Handle::current();
        // A large table takes a while, in which connections are still served.
        let snapshot = task::spawn_blocking(move || runtime.block_on(Snapshot::take())).await??;
        let reading = Arc::new(Reading {
            snapshot,
            at: self.begun.elapsed(),
            took: start.elapsed(),
        });
        *last = Some(Arc::clone(&reading));
        Ok(reading)
    }
}
