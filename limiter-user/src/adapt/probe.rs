//! Asks a server again and again, and notes the answers that came late.

use std::{
    io,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use hyper::{Request, client::conn::http1::handshake, header::HOST};
use hyper_util::rt::TokioIo;
use limiter_config::adaptive::Probe;
use tokio::{
    net::TcpStream,
    runtime::Builder,
    time::{Instant, sleep_until, timeout},
};

/// Time between two questions. The next one waits for the answer.
const EVERY: Duration = Duration::from_millis(100);

/// A probe that runs until it is dropped. It has a thread of its own, so that no other work makes answers late.
#[derive(Debug)]
pub struct Prober(Arc<Mutex<Answers>>);

/// The answers of the present round.
#[derive(Debug, Default)]
struct Answers {
    all: u32,
    late: u32,
    /// The last late answer, for people.
    why: String,
    /// True if the last round with answers was over.
    was_over: bool,
}

impl Prober {
    /// Starts to ask.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(probe: Probe) -> io::Result<Self> {
        let answers = Arc::<Mutex<Answers>>::default();
        let noted = Arc::downgrade(&answers);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    while let Some(noted) = noted.upgrade() {
                        let next = Instant::now() + EVERY;
                        let answer = timeout(probe.within, ask(&probe)).await;
                        let answer = answer.context("no answer in time").flatten();
                        if let Ok(mut noted) = noted.lock() {
                            noted.all += 1;
                            if let Err(why) = answer {
                                noted.late += 1;
                                noted.why = why.to_string();
                            }
                        }
                        drop(noted);
                        sleep_until(next).await;
                    }
                });
            })?;
        Ok(Self(answers))
    }

    /// The answers since the last call, if more than one in ten was late, and more than one or the only one. Without an
    /// answer, the last result stays.
    pub fn over(&self) -> Option<String> {
        let mut answers = self.0.lock().ok()?;
        let last = std::mem::take(&mut *answers);
        let (all, late, why) = (last.all, last.late, last.why);
        answers.was_over = match all {
            0 => last.was_over,
            1 => late == 1,
            _ => late > 1 && late * 10 > all,
        };
        (answers.was_over).then(|| format!("probe: {late} of {all} answers late or missing: {why}"))
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
    let answer = sender.send_request(request);
    tokio::pin!(answer);
    let answer = tokio::select! {
        answer = &mut answer => answer?,
        // A server may close the connection with its answer.
        ended = connection => {
            ended?;
            answer.await?
        }
    };
    anyhow::ensure!(!answer.status().is_server_error(), "{}", answer.status());
    Ok(())
}
