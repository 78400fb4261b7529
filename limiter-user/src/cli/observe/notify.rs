use std::{io, os::unix::fs::MetadataExt, path::PathBuf, time::Duration};

use anyhow::anyhow;
use clap::{ArgGroup, Args};
use nix::unistd::{AccessFlags, access, getuid};
use tokio::{sync::mpsc, time};
use ureq::http::Uri;

use crate::{
    cli::shared::{
        DAY, SECOND, count, duration, interface, interruption, is_all, note, output::report,
    },
    export::Collection,
    helper::{self, Question},
    notify::{
        Explainer,
        deliver::{Hook, deliver, once},
        event::Event,
        format::Format,
        watch::{Rules, Watch},
    },
    sandbox,
};

/// Run a program, or call a URL, when a flood begins or ends
///
/// It runs until interrupted, and changes nothing. The program gets each event on its standard input, the URL as the
/// body of a POST: as JSON, or as --format says. An attempt may take ten seconds. If it fails, limiter tries again for four minutes.
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
    /// Form of the events
    #[arg(long, value_enum, default_value_t)]
    format: Format,
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
    /// Explain a flood when it begins, and add the explanation, without payload: takes ten seconds more
    #[arg(long)]
    explain: bool,
    /// Send one event `test`, print it with the answer, and end: with status 1 if it was not taken
    #[arg(long)]
    test: bool,
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

/// The program or the URL. clap's parser requires one of them.
fn hook(exec: Option<PathBuf>, webhook: Option<Uri>) -> anyhow::Result<Hook> {
    let exec = exec.map(Hook::Exec);
    let hook = exec.or_else(|| webhook.map(Hook::Webhook));
    hook.ok_or_else(|| anyhow!("nothing to run or to call: write --exec or --webhook"))
}

pub async fn run(mut options: Notify) -> anyhow::Result<()> {
    let stop = interruption()?;
    if is_all(&options.interfaces) {
        options.interfaces.clear();
    }
    let hook = hook(options.exec, options.webhook)?;
    if options.test {
        let interface = options.interfaces.first();
        let event = Event::test(interface.map_or("all", String::as_str));
        give_up_privileges(&hook)?;
        return test(&hook, options.format, &event).await;
    }
    let rules = Rules {
        interfaces: options.interfaces,
        on: options.on,
        drops: options.drops,
        full: options.full,
        window: options.window,
        pause: options.pause,
    };
    let mut explainer = match options.explain {
        true => Some(Explainer::start()?),
        false => None,
    };
    let mut helper = helper::start(None)?;
    let window = u64::try_from(rules.window.as_millis()).unwrap_or(u64::MAX);
    let first = helper.send(&Question::Floods(rules.drops, window)).await;
    first.map_err(|error| {
        anyhow!("the helper process has ended ({error}): start limiter again; `dmesg` may say why")
    })?;
    let (collection, _) = Collection::start(helper, false);
    // Attachments that cannot be read are reported now, not when they are missed.
    let reading = collection.latest().await.map_err(anyhow::Error::msg)?;
    reading.snapshot.notes().for_each(|text| note(text));
    give_up_privileges(&hook)?;
    // If more events wait for delivery, readings wait too.
    let (sender, events) = mpsc::channel(1_000);
    let watching = async {
        let mut watch = Watch::default();
        loop {
            // A reading that is younger than a second would be repeated.
            time::sleep(Duration::from_secs(2)).await;
            let reading = collection.latest().await.map_err(anyhow::Error::msg)?;
            for mut event in watch.step(&rules, reading) {
                if let Some(explainer) = &mut explainer {
                    explainer.explain(&mut event).await;
                }
                note(&event.text);
                sender.send(event).await?;
            }
        }
    };
    tokio::select! {
        () = stop => Ok(()),
        end = deliver(&hook, options.format, events, note) => end,
        never = watching => never,
    }
}

/// Becomes the user of the program, or one that owns nothing.
fn give_up_privileges(hook: &Hook) -> anyhow::Result<()> {
    let Hook::Exec(path) = hook else {
        return sandbox::renounce([0, 0]);
    };
    let cannot = |error: io::Error| {
        let (path, user) = (path.display(), getuid());
        anyhow!("user {user} cannot run {path} ({error}): `namei -l {path}` shows the rights")
    };
    let file = path.metadata().map_err(cannot)?;
    sandbox::renounce([file.uid(), file.gid()])?;
    access(path, AccessFlags::X_OK).map_err(|error| cannot(error.into()))
}

/// Delivers an event once, and prints it with the answer.
async fn test(hook: &Hook, format: Format, event: &Event) -> anyhow::Result<()> {
    let receiver = hook.receiver();
    let body = format.body(event)?;
    let sent = match hook {
        Hook::Exec(_) => body.text.trim_end().to_owned(),
        Hook::Webhook(_) => body.to_string(),
    };
    report(&format!("sent to {receiver}:\n{sent}\n"));
    let delivered = once(hook, format, event).await;
    let answer = delivered.map_err(|error| anyhow!("{receiver} did not take it: {error}"))?;
    report(&format!("taken: {answer}\n"));
    Ok(())
}
