//! Delivers events: to a program, or to a URL.

use std::{env, io::Read as _, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{io::AsyncWriteExt, process::Command, sync::mpsc::Receiver, task, time};
use ureq::{Agent, http::Uri};

use super::{
    event::Event,
    format::{Body, Format},
};

/// Time that a program or a call may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The variables that a program gets of limiter's own environment. Others may be secrets of root.
const ENVIRONMENT: [&str; 5] = ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];
/// Number of attempts to deliver an event.
const ATTEMPTS: u32 = 10;

/// The receiver of events.
#[derive(Debug)]
pub enum Hook {
    /// A program, which gets each event on its standard input.
    Exec(PathBuf),
    /// A URL, which gets each event as the body of a POST.
    Webhook(Uri),
}

/// The most characters of an answer that are told.
const ANSWER: usize = 200;

impl Hook {
    /// The receiver in words. A path of a URL may be a secret.
    pub fn receiver(&self) -> String {
        match self {
            Self::Exec(path) => path.display().to_string(),
            Self::Webhook(url) => url.host().unwrap_or("the URL").to_owned(),
        }
    }
}

/// Delivers an event by one attempt. Returns the answer in words.
pub async fn once(hook: &Hook, format: Format, event: &Event) -> anyhow::Result<String> {
    let agent = limiter_feed::http::agent(TIMEOUT, 0, false);
    call(hook, &agent, format.body(event)?).await
}

/// Delivers events in their order, one after the other.
/// Calls `note` with a line about each attempt that failed.
pub async fn deliver(
    hook: &Hook,
    format: Format,
    mut events: Receiver<Event>,
    note: impl Fn(&str),
) -> anyhow::Result<()> {
    let agent = limiter_feed::http::agent(TIMEOUT, 0, false);
    while let Some(event) = events.recv().await {
        let body = format.body(&event)?;
        for attempt in 1..=ATTEMPTS {
            let Err(error) = call(hook, &agent, body.clone()).await else {
                break;
            };
            let subject = &event.subject;
            note(&format!(
                "{subject}: attempt {attempt} of {ATTEMPTS} to deliver it failed: {error}"
            ));
            time::sleep(wait(attempt)).await;
        }
    }
    Ok(())
}

/// The wait after this number of attempts: 1, 2, 4 … 64 seconds.
fn wait(attempts: u32) -> Duration {
    Duration::from_secs(1 << (attempts - 1).min(6))
}

/// Returns the answer in words.
async fn call(hook: &Hook, agent: &Agent, body: Body) -> anyhow::Result<String> {
    match hook {
        Hook::Exec(path) => {
            // In a process group of its own: a timeout ends its children too.
            let mut command = Command::new(path);
            let own = ENVIRONMENT.map(|name| Some((name, env::var_os(name)?)));
            command.env_clear().envs(own.into_iter().flatten());
            command.env("HOME", "/").current_dir("/");
            let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
            let group = i32::try_from(child.id().context("it has ended")?)?;
            let work = async {
                if let Some(mut input) = child.stdin.take() {
                    // A program need not read it.
                    let _ = input.write_all(body.text.as_bytes()).await;
                }
                child.wait().await
            };
            let ended = time::timeout(TIMEOUT, work).await;
            if ended.is_err() {
                killpg(Pid::from_raw(group), Signal::SIGKILL)?;
            }
            let status = ended??;
            ensure!(status.success(), "{status}");
            Ok(format!("the program ended with {status}"))
        }
        Hook::Webhook(url) => {
            // The text of an error says more than its number.
            let request = agent.post(url).config().http_status_as_error(false);
            let mut request = request.build().content_type(body.content_type);
            for (name, value) in &body.headers {
                request = request.header(*name, value);
            }
            let answer = task::spawn_blocking(move || {
                let mut answer = request.send(body.text)?;
                // A long one is cut: 4 bytes are a character at most.
                let mut text = vec![];
                let mut reader = answer.body_mut().as_reader().take(4 * ANSWER as u64);
                let _ = reader.read_to_end(&mut text);
                anyhow::Ok((answer.status(), text))
            });
            let (status, text) = answer.await??;
            let text = String::from_utf8_lossy(&text);
            let text: String = text.trim().chars().take(ANSWER).collect();
            let text = match text.is_empty() {
                true => text,
                false => format!(", \"{text}\""),
            };
            // A redirect would lose the body.
            ensure!(status.is_success(), "http status: {status}{text}");
            Ok(format!("http status: {status}{text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute() {
        let waits: Vec<_> = (1..ATTEMPTS)
            .map(|attempt| wait(attempt).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
