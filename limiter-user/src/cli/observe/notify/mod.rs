pub mod watch;

use std::{env, io, os::unix::fs::MetadataExt, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, anyhow, ensure};
use clap::{ArgGroup, Args};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::{AccessFlags, Pid, access, getuid},
};
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    sync::mpsc::{self, Receiver},
    task, time,
};
use ureq::{Agent, http::Uri};

use crate::{
    cli::shared::{DAY, SECOND, count, duration, interface, interruption, is_all, note},
    export::Collection,
    helper, sandbox,
};
use watch::{Event, Watch};

/// Time that a program or a call may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The variables that a program gets of limiter's own environment. Others may be secrets of root.
const ENVIRONMENT: [&str; 5] = ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];
/// Number of attempts to deliver an event.
const ATTEMPTS: u32 = 10;

/// Run a program, or call a URL, when a flood begins or ends
///
/// It runs until interrupted, and changes nothing. The program gets each event as JSON on its standard input, the URL
/// as the body of a POST. An attempt may take ten seconds. If it fails, limiter tries again for four minutes.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("hook").required(true).args(["exec", "webhook"]))]
pub struct Notify {
    /// The interfaces, separated by spaces or commas. Default: all that limiter is attached to
    #[arg(value_name = "IFACE", value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// The events to tell: drops, the table of sources, limiter not attached or not readable
    #[arg(long, value_name = "EVENT,...", value_delimiter = ',', default_value = "flood,table-full,detached", value_parser = ["flood", "table-full", "detached"])]
    on: Vec<String>,
    /// Program to run, without a shell or arguments, as the owner of its file; as user 65533, if that is root
    #[arg(long, value_name = "PATH", value_parser = program)]
    exec: Option<PathBuf>,
    /// URL to call. All users of this host can read a command line, but not the environment
    #[arg(long, env = "LIMITER_WEBHOOK", hide_env_values = true, value_name = "URL", value_parser = url)]
    webhook: Option<Uri>,
    /// Dropped packets per second that are a flood, as in 10k/s
    #[arg(long, value_name = "RATE", default_value = "10k/s", value_parser = |text: &str| count(text.trim_end_matches("/s")))]
    drops: u64,
    /// Percentage at which the table of sources is nearly full
    #[arg(long, value_name = "PERCENT", default_value_t = 85, value_parser = clap::value_parser!(u64).range(1..=100))]
    full: u64,
    /// Time for which a condition must last, or be over, before it is told
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration(SECOND..=DAY, "10s"))]
    window: Duration,
    /// Time after the end of an event in which the same event does not begin again
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration(0..=DAY, "5m"))]
    pause: Duration,
}

fn program(text: &str) -> Result<PathBuf, &'static str> {
    let path = Some(PathBuf::from(text)).filter(|path| path.is_absolute() && !path.is_dir());
    path.ok_or("not an absolute path of a file: write one as in /etc/limiter/on-event")
}

fn url(text: &str) -> Result<Uri, &'static str> {
    let url = text.parse().ok();
    let url = url.filter(|url: &Uri| matches!(url.scheme_str(), Some("http" | "https")));
    url.ok_or("not a URL: write one as in https://chat.example/hook")
}

pub async fn run(mut options: Notify) -> anyhow::Result<()> {
    let stop = interruption()?;
    if is_all(&options.interfaces) {
        options.interfaces.clear();
    }
    let (collection, _) = Collection::start(helper::start(None)?);
    // Attachments that cannot be read are reported now, not when they are missed.
    let reading = collection.latest().await.map_err(anyhow::Error::msg)?;
    let unreadable = reading.snapshot.unreadable.iter();
    unreadable.for_each(|error| note(error));
    if let Some(path) = &options.exec {
        let cannot = |error: io::Error| {
            let (path, user) = (path.display(), getuid());
            anyhow!("user {user} cannot run {path} ({error}): `namei -l {path}` shows the rights")
        };
        let file = path.metadata().map_err(cannot)?;
        sandbox::renounce([file.uid(), file.gid()])?;
        access(path, AccessFlags::X_OK).map_err(|error| cannot(error.into()))?;
    } else {
        sandbox::renounce([0, 0])?;
    }
    // If more events wait for delivery, readings wait too.
    let (sender, events) = mpsc::channel(1_000);
    let watching = async {
        let mut watch = Watch::default();
        loop {
            // A reading that is younger than a second would be repeated.
            time::sleep(Duration::from_secs(2)).await;
            let reading = collection.latest().await.map_err(anyhow::Error::msg)?;
            for event in watch.step(&options, reading) {
                note(&event.text);
                sender.send(event).await?;
            }
        }
    };
    tokio::select! {
        () = stop => Ok(()),
        end = deliver(&options, events) => end,
        never = watching => never,
    }
}

/// Delivers events in their order, one after the other.
async fn deliver(options: &Notify, mut events: Receiver<Event>) -> anyhow::Result<()> {
    let agent = limiter_feed::http::agent(TIMEOUT, 0, false);
    while let Some(event) = events.recv().await {
        let json = serde_json::to_string(&event)?;
        for attempt in 1..=ATTEMPTS {
            let Err(error) = call(options, &agent, json.clone()).await else {
                break;
            };
            let text = &event.text;
            note(&format!(
                "{text}: attempt {attempt} of {ATTEMPTS} to deliver it failed: {error}"
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

async fn call(options: &Notify, agent: &Agent, json: String) -> anyhow::Result<()> {
    if let Some(path) = &options.exec {
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
                let _ = input.write_all(json.as_bytes()).await;
            }
            child.wait().await
        };
        let ended = time::timeout(TIMEOUT, work).await;
        if ended.is_err() {
            killpg(Pid::from_raw(group), Signal::SIGKILL)?;
        }
        let status = ended??;
        ensure!(status.success(), "{status}");
    } else if let Some(url) = &options.webhook {
        let request = agent.post(url).content_type("application/json");
        let answer = task::spawn_blocking(move || request.send(json)).await?;
        let status = answer?.status();
        // A redirect would lose the body.
        ensure!(status.is_success(), "http status: {status}");
    }
    Ok(())
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
