//! Reads the kernel once for all requests at the same time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use super::history::{History, INTERVAL, Rates};
use crate::{
    helper::{Broken, Channel, End},
    observe::snapshot::{Snapshot, TakeSnapshot},
};

/// Time for which a reading is reused.
const FRESH: Duration = Duration::from_secs(1);

/// A reading of the kernel, with its time.
#[derive(Debug)]
pub struct Reading {
    /// The data.
    pub snapshot: Snapshot,
    /// Time of the reading, since the collection was created. It does not follow changes of the system clock.
    pub at: Duration,
    /// Duration of the reading.
    pub took: Duration,
}

/// Readings that are shared: all requests during a reading, and for one second after it, get the same one.
#[derive(Clone, Debug)]
pub struct Collection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    end: End,
    state: Mutex<State>,
    history: Mutex<History>,
    lost: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct State {
    /// The helper process, which reads the kernel.
    helper: Channel,
    last: Option<Arc<Reading>>,
}

impl Collection {
    /// Creates a collection that reads through the helper process.
    pub fn new(helper: Channel) -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            end: helper.end(),
            state: Mutex::new(State { helper, last: None }),
            history: Mutex::default(),
            lost: watch::Sender::new(None),
        }))
    }

    /// The last reading, or a new one.
    pub async fn latest(&self) -> anyhow::Result<Arc<Reading>> {
        let inner = Arc::clone(&self.0);
        // The reading runs in its own task. A client that disconnects does not end the reading for others, nor leave
        // one behind while the next client begins another.
        tokio::spawn(async move { inner.latest().await }).await?
    }

    /// Reads at intervals, even without requests, and keeps the rates.
    pub async fn keep_history(&self) -> ! {
        loop {
            let wait = match self.latest().await {
                Ok(reading) => {
                    let seen = reading.snapshot.status.interfaces.iter();
                    let seen = seen.map(|of| (of.ifindex, of.attached_at.clone(), of.verdicts));
                    self.0.history.lock().await.add(reading.at, seen)
                }
                // Requests report the error. The next point covers a longer time.
                Err(_) => INTERVAL,
            };
            sleep(wait).await;
        }
    }

    /// Rates of the last two hours of an interface.
    pub async fn history(&self, ifindex: u32) -> Rates {
        self.0.history.lock().await.of(ifindex)
    }

    /// Waits until the helper process is gone, and returns the reason.
    pub async fn lost(&self) -> String {
        let mut lost = self.0.lost.subscribe();
        tokio::select! {
            // The sender lives as long as this collection.
            Ok(why) = lost.wait_for(Option::is_some) => why.clone().unwrap_or_default(),
            broken = self.0.end.wait() => broken.to_string(),
        }
    }
}

impl Inner {
    async fn latest(&self) -> anyhow::Result<Arc<Reading>> {
        let mut state = self.state.lock().await;
        if let Some(reading) = state.last.as_ref()
            && self.begun.elapsed().saturating_sub(reading.at) < FRESH
        {
            return Ok(Arc::clone(reading));
        }
        let start = Instant::now();
        let taken: Result<Result<Snapshot, String>, Broken> = state.helper.ask(&TakeSnapshot).await;
        if let Err(broken) = &taken {
            self.lost.send_replace(Some(broken.to_string()));
        }
        let reading = Arc::new(Reading {
            snapshot: taken?.map_err(anyhow::Error::msg)?,
            at: self.begun.elapsed(),
            took: start.elapsed(),
        });
        state.last = Some(Arc::clone(&reading));
        Ok(reading)
    }
}
