//! Completion: the values that Tab offers, read from this host. Without root, it offers what anybody may read.

use std::{collections::BTreeSet, env, fs};

use clap::{Arg, Command, error::Result};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, CompletionCandidate},
    env::Shells,
};
use limiter_config::lists::show;
use limiter_kernel::{
    Attachment,
    program::bans::text,
    sys::{clock, interface},
};

use crate::cli::shared::descriptors;

/// The variable by which a shell's script asks for candidates.
const VARIABLE: &str = "LIMITER_COMPLETE";
const NAME: &str = "limiter";
/// The most candidates of a kind: nobody reads more.
const MOST: usize = 1_000;
const BASH_COLONS: &str = include_str!("colons.bash");
/// zsh looks for `_limiter` in a file, whose first call must complete too. Otherwise the first Tab shows nothing.
const ZSH_AUTOLOAD: &str = "
if [ \"$funcstack[1]\" = \"_limiter\" ]; then
    _clap_dynamic_completer_limiter \"$@\"
fi
";

/// Answers a shell's script. Returns false if none asks.
pub fn answer(command: impl Fn() -> Command) -> Result<bool> {
    let factory = || with_values(command(), &mut Vec::new());
    CompleteEnv::with_factory(factory)
        .var(VARIABLE)
        .try_complete(env::args_os(), env::current_dir().ok().as_deref())
}

/// The script for a shell, which calls limiter for each Tab.
pub fn script(shell: &str) -> std::io::Result<String> {
    let mut text = Vec::new();
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(shell) {
        shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut text)?;
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    text += match shell {
        "bash" => BASH_COLONS,
        "zsh" => ZSH_AUTOLOAD,
        _ => "",
    };
    Ok(text)
}

/// Adds the values to the arguments of a command and of those within it.
fn with_values(command: Command, path: &mut Vec<String>) -> Command {
    let inner = command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned());
    let inner: Vec<_> = inner.collect();
    let command = inner.into_iter().fold(command, |command, name| {
        path.push(name.clone());
        let command = command.mut_subcommand(name, |inner| with_values(inner, path));
        path.pop();
        command
    });
    let path: Vec<_> = path.iter().map(String::as_str).collect();
    command.mut_args(|given| match candidates(&path, &given) {
        Some(candidates) => given.add(ArgValueCandidates::new(candidates)),
        None => given,
    })
}

/// The source of an argument's values.
fn candidates(path: &[&str], given: &Arg) -> Option<fn() -> Vec<CompletionCandidate>> {
    let names = given.get_value_names()?;
    let name = names.first()?.as_str();
    Some(match (path, given.get_id().as_str(), name) {
        (_, _, "IFACE") => interfaces,
        (["limit"], "name", _) | (["set" | "watch"], "limit", _) => limits,
        (["tier", _], "name", _) => tiers,
        (_, "origin", _) => origins,
        (["unban"], _, "CIDR") => banned,
        (["allow" | "deny" | "tier", "remove"], _, "CIDR") => listed,
        (["feed"], "feed", _) => feeds,
        (["man"], "page", _) => pages,
        _ => return None,
    })
}

/// The words of the command line that is being completed.
fn words() -> Vec<String> {
    let words = env::args().skip_while(|word| word != "--");
    words.skip(1).collect()
}

/// The result of `work`, or nothing: a shell that completes has no place for messages.
fn found<T: Default>(work: impl Future<Output = Option<T>>) -> T {
    descriptors::early(work).flatten().unwrap_or_default()
}

/// Interfaces, those with an attachment first.
fn interfaces() -> Vec<CompletionCandidate> {
    let (attached, all) = found(async {
        let attached = Attachment::names().await.unwrap_or_default();
        Some((attached, interface::all().await.ok()?))
    });
    let others = all.into_iter().map(|interface| interface.name);
    let others = others.filter(|name| !attached.contains(name));
    let help = |text: &'static str| Some(text.into());
    let first = attached.iter().map(|name| {
        let candidate = CompletionCandidate::new(name).display_order(Some(0));
        candidate.help(help("limiter is attached"))
    });
    let others = others.map(|name| CompletionCandidate::new(name).display_order(Some(1)));
    first.chain(others).collect()
}

/// Texts of the attachments that the command line names, or of all.
fn of_attachments(
    texts: impl Fn(&Attachment) -> Option<BTreeSet<String>>,
) -> Vec<CompletionCandidate> {
    let words = words();
    let texts = found(async {
        let attached = Attachment::names().await.ok()?;
        let is_named = |name: &&String| {
            words
                .iter()
                .any(|word| word.split(',').any(|part| part == *name))
        };
        let named: Vec<_> = attached.iter().filter(is_named).collect();
        let wanted = match named.is_empty() {
            true => attached.iter().collect(),
            false => named,
        };
        let mut all = BTreeSet::new();
        for name in wanted {
            if let Ok(attachment) = Attachment::open(name).await {
                all.extend(texts(&attachment).unwrap_or_default());
            }
        }
        Some(all)
    });
    texts
        .into_iter()
        .take(MOST)
        .map(CompletionCandidate::new)
        .collect()
}

fn limits() -> Vec<CompletionCandidate> {
    of_attachments(|attachment| {
        let limits = attachment.record.settings.limits.iter();
        Some(limits.map(|limit| limit.name.clone()).collect())
    })
}

fn tiers() -> Vec<CompletionCandidate> {
    of_attachments(|attachment| Some(attachment.record.tiers.tiers().cloned().collect()))
}

fn origins() -> Vec<CompletionCandidate> {
    of_attachments(|attachment| {
        let bans = attachment.bans.at(clock::now().ok()?).ok()?;
        Some(bans.iter().map(|(_, ban)| text(&ban.origin)).collect())
    })
}

fn banned() -> Vec<CompletionCandidate> {
    of_attachments(|attachment| {
        let bans = attachment.bans.at(clock::now().ok()?).ok()?;
        Some(bans.iter().map(|(prefix, _)| show(prefix)).collect())
    })
}

/// Prefixes on the list that the command line names.
fn listed() -> Vec<CompletionCandidate> {
    let words = words();
    of_attachments(|attachment| {
        let lists = attachment.settings().ok()?.lists;
        let named = lists
            .all()
            .filter(|(name, _)| words.iter().any(|word| word == name));
        Some(
            named
                .flat_map(|(_, prefixes)| prefixes.iter().map(|prefix| show(&prefix)))
                .collect(),
        )
    })
}

/// The names of the feeds that are configured.
fn feeds() -> Vec<CompletionCandidate> {
    let files = fs::read_dir("/etc/limiter/feeds").into_iter().flatten();
    let paths = files.flatten().map(|file| file.path());
    let toml = paths.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let names = toml.filter_map(|path| path.file_stem().map(ToOwned::to_owned));
    names.map(CompletionCandidate::new).collect()
}

fn pages() -> Vec<CompletionCandidate> {
    let verbs = crate::cli::GROUPS
        .iter()
        .flat_map(|(_, verbs)| verbs.split(' '));
    let pages = verbs.chain(["limiter", "limiter.toml"]);
    pages.map(CompletionCandidate::new).collect()
}
