//! Asks a server again and again, and notes the answers that came late.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use hyper::{Request, client::conn::http1::handshake, header::HOST};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use crate::config::adaptive::Probe;

/// Time between two questions. The next one waits for the answer.
const EVERY: Duration = Duration::from_millis(100);

/// A probe that runs until it is dropped.
#[derive(Debug)]
pub struct Prober {
    answers: Arc<Mutex<Answers>>,
    task: AbortHandle,
}

/// Answers of the present round, and whether the last complete round was over.
#[derive(Debug, Default)]
struct Answers {
    all: u32,
    late: u32,
    was_over: bool,
}

impl Prober {
    /// Starts to ask.
    pub fn start(probe: Probe) -> Self {
        let answers = Arc::<Mutex<Answers>>::default();
        let noted = Arc::clone(&answers);
        let task = tokio::spawn(async move {
            loop {
                let next = Instant::now() + EVERY;
                let answer = timeout(probe.within, ask(&probe)).await;
                if let Ok(mut noted) = noted.lock() {
                    noted.all += 1;
                    noted.late += u32::from(!matches!(answer, Ok(Ok(()))));
                }
                sleep_until(next).await;
            }
        });
        Self {
            answers,
            task: task.abort_handle(),
        }
    }

    /// The answers since the last call, if more than one in ten was late. Without an answer, the last result stays.
    pub fn over(&self) -> Option<String> {
        let mut answers = self.answers.lock().ok()?;
        let Answers {
            all,
            late,
            was_over,
        } = *answers;
        let over = if all == 0 { was_over } else { late * 10 > all };
        *answers = Answers {
            was_over: over,
            ..Answers::default()
        };
        over.then(|| format!("probe: {late} of {all} answers late or missing"))
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits for one answer: a connection, and for `http` a status below 500.
async fn ask(Probe { url, .. }: &Probe) -> anyhow::Result<()> {
    let host = url.host().context("no host")?;
    let port = url.port_u16().unwrap_or(80);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((address, port)).await?;
    if url.scheme_str() == Some("tcp") {
        return Ok(());
    }
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let authority = url.authority().context("no host")?;
    let request = Request::get(path).header(HOST, authority.as_str());
    let request = request.body(String::new())?;
    let answer = tokio::select! {
        answer = sender.send_request(request) => answer?,
        ended = connection => {
            ended?;
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    };
    anyhow::ensure!(!answer.status().is_server_error(), "{}", answer.status());
    Ok(())
}
