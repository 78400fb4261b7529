//! Reads the kernel for all requests, at most once per second, and the counters for the history.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::{Serialize, Serializer};
use tokio::{
    sync::{
        mpsc,
        oneshot::{self, error::RecvError},
    },
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::history::{History, STEP};
use crate::{
    helper::{Channel, Question},
    observe::{Counted, Snapshot, request::Answer},
};

/// Time for which a reading is reused.
const FRESH: Duration = Duration::from_secs(1);

/// A reading of the kernel, with its time.
#[derive(Debug, Serialize)]
pub struct Reading {
    /// Time of the reading, since the exporter's start. It does not follow changes of the system clock. Clients need it
    /// to compute rates.
    #[serde(rename = "read_at_ms", serialize_with = "milliseconds")]
    pub at: Duration,
    /// The data.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Duration of the reading.
    #[serde(skip)]
    pub took: Duration,
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u128(time.as_millis())
}

/// A reading, or the reason why there is none.
pub type Latest = Result<Arc<Reading>, String>;

/// A request to the task that talks to the helper process.
#[derive(Debug)]
enum Request {
    Latest(oneshot::Sender<Latest>),
    Ask(Question, oneshot::Sender<Result<Answer, String>>),
}

/// The helper process is gone, or violates the protocol.
#[derive(Debug, thiserror::Error)]
#[error("the helper process has ended ({0}): start limiter again; `dmesg` may say why")]
pub struct Lost(#[from] io::Error);

/// Readings that are shared: all requests during a reading, and for one second after it, get the same one.
#[derive(Clone, Debug)]
pub struct Collection {
    requests: mpsc::Sender<Request>,
    history: Arc<Mutex<History>>,
}

impl Collection {
    /// Starts to answer from readings of the helper process. The task ends with that process. `remembers`: it also keeps
    /// a history of the counters.
    pub fn start(helper: Channel, remembers: bool) -> (Self, JoinHandle<Lost>) {
        let (sender, requests) = mpsc::channel(1);
        let collection = Self {
            requests: sender,
            history: Arc::default(),
        };
        let history = remembers.then(|| Arc::clone(&collection.history));
        (collection, tokio::spawn(attend(helper, requests, history)))
    }

    /// The history in JSON.
    /// Returns the errors of the library that writes it.
    pub fn history(&self) -> serde_json::Result<String> {
        let history = self.history.lock();
        serde_json::to_string(&history.unwrap_or_else(PoisonError::into_inner).shown())
    }

    /// The last reading, or a new one.
    pub async fn latest(&self) -> Latest {
        let (answer, latest) = oneshot::channel();
        // If the helper is gone, both fail, and the exporter ends.
        let _ = self.requests.send(Request::Latest(answer)).await;
        latest.await.map_err(lost)?
    }

    /// The helper's answer to a question.
    pub async fn ask(&self, question: Question) -> Result<Answer, String> {
        let (answer, comes) = oneshot::channel();
        let _ = self.requests.send(Request::Ask(question, answer)).await;
        comes.await.map_err(lost)?
    }
}

fn lost(_: RecvError) -> String {
    "the helper process has ended".to_owned()
}

/// Answers requests until the helper process is gone. A client that disconnects does not end the reading for others.
async fn attend(
    mut helper: Channel,
    mut requests: mpsc::Receiver<Request>,
    history: Option<Arc<Mutex<History>>>,
) -> Lost {
    let begun = Instant::now();
    let mut last: Option<Arc<Reading>> = None;
    let mut steps = interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let request = tokio::select! {
            Some(request) = requests.recv() => request,
            _ = steps.tick(), if history.is_some() => {
                if let Some(history) = &history && let Err(error) = remember(&mut helper, begun, history).await {
                    return error.into();
                }
                continue;
            }
            end = helper.ended() => return end.into(),
        };
        let request = match request {
            Request::Latest(request) => request,
            Request::Ask(question, answer) => {
                match helper.ask(&question).await {
                    // A client that is gone needs no answer.
                    Ok(answered) => _ = answer.send(answered),
                    Err(error) => return error.into(),
                }
                continue;
            }
        };
        let fresh = |reading: &Arc<Reading>| begun.elapsed().saturating_sub(reading.at) < FRESH;
        let latest = match last.take().filter(fresh) {
            Some(reading) => Ok(reading),
            None => match read(&mut helper, begun).await {
                Ok(latest) => latest.map(Arc::new),
                Err(error) => return error.into(),
            },
        };
        last = latest.as_ref().ok().map(Arc::clone);
        // A client that is gone needs no answer.
        let _ = request.send(latest);
    }
}

/// Adds a point to the history. If the kernel cannot be read, the point is not known.
async fn remember(
    helper: &mut Channel,
    begun: Instant,
    history: &Mutex<History>,
) -> io::Result<()> {
    let counted: Result<Vec<Counted>, String> = helper.ask(&Question::Counts).await?;
    let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
    history.add(begun.elapsed(), counted.unwrap_or_default());
    Ok(())
}

async fn read(helper: &mut Channel, begun: Instant) -> io::Result<Result<Reading, String>> {
    let start = Instant::now();
    let taken: Result<Snapshot, String> = helper.ask(&Question::Snapshot).await?;
    Ok(taken.map(|snapshot| Reading {
        snapshot,
        at: begun.elapsed(),
        took: start.elapsed(),
    }))
}
