//! Reading the kernel, once for all who ask at the same time.

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
    end: End,
    state: Mutex<State>,
    history: Mutex<History>,
    lost: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct State {
    /// The process that reads.
    helper: Channel,
    last: Option<Arc<Reading>>,
}

impl Collection {
    /// Of what this helper reads.
    #[must_use]
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
        // A task of its own: a client that goes away does not end the reading that others wait for, nor does it
        // leave one behind while the next client begins another.
        tokio::spawn(async move { inner.latest().await }).await?
    }

    /// Reads now and then, also while nobody asks, and keeps the rates.
    pub async fn keep_history(&self) -> ! {
        loop {
            let wait = match self.latest().await {
                Ok(reading) => {
                    let interfaces = &reading.snapshot.status.interfaces;
                    self.0.history.lock().await.add(reading.at, interfaces)
                }
                // Whoever asks is told why. The next point is of a longer time.
                Err(_) => INTERVAL,
            };
            sleep(wait).await;
        }
    }

    /// Rates of the last two hours of an interface.
    pub async fn history(&self, ifindex: u32) -> Rates {
        self.0.history.lock().await.of(ifindex)
    }

    /// Waits until there is nobody to ask any more, and says why.
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
