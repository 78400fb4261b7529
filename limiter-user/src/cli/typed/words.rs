//! The words of a command line before clap reads them: the interface may be named by `-i`, or left out where limiter is
//! attached to one, and a list or an interface may come in front of its verb.

use std::{ffi::OsString, net::IpAddr};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use limiter_kernel::{Attachment, sys::requirements};

use super::{operands, rephrase::rephrased};
use crate::cli::shared::{descriptors, interface, interfaces::ALL, is_interface, prefix};

/// The value's name of arguments that are interfaces.
const IFACE: &str = "IFACE";
/// Verbs whose interfaces need no attachment.
const WITHOUT_ATTACHMENT: [&str; 3] = ["attach", "doctor", "learn"];
/// The verb that never guesses its interface: protection would end where nobody meant it.
const NEVER_GUESSES: &str = "detach";
/// The verb whose lists have names.
const NAMED_LIST: &str = "tier";
const NOT_ATTACHED: &str =
    "limiter is not attached to any interface: `limiter attach IFACE --rate RATE` begins to limit";

/// Reads a command line. If it is wrong, and would be right with the only interface that limiter is attached to behind
/// the verb, it means that interface.
pub fn parse(
    words: Vec<OsString>,
    command: impl Fn() -> Command,
) -> Result<ArgMatches, clap::Error> {
    let mut definition = command();
    let (mut words, is_named) = with_named(words, &definition);
    if !is_named {
        words = in_order(rephrased(words), &definition);
        if let Some(wrong) = ambiguous(&words, &mut definition) {
            return Err(wrong);
        }
        words = with_attached_before_file(words, &definition);
    }
    // The definition is built once, because that takes most of the time of a short command.
    let wrong = match definition.try_get_matches_from_mut(&words) {
        Err(wrong) if !is_named && may_lack(wrong.kind()) => wrong,
        Ok(matches) => {
            return match misread(&matches, &definition) {
                Some(wrong) => Err(wrong),
                None => Ok(matches),
            };
        }
        read => return read,
    };
    let read = |words: &[OsString]| command().try_get_matches_from(words);
    let Some(verb) = Verb::of(&words, &definition) else {
        return Err(wrong);
    };
    let Verb { path, place, .. } = verb;
    if !verb.command.get_positionals().any(is_interfaces)
        || WITHOUT_ATTACHMENT.contains(&&*path[0])
        || words.iter().any(names_interface)
    {
        return Err(wrong);
    }
    let Some(attached) = attached() else {
        let lacks = read(&with_interface(&words, place, ALL)).is_ok();
        let unknown = requirements::may_read().is_err() && lacks;
        let text = unknown.then(|| without_root(&path, words.len() > place));
        let text = text.and_then(|text| said(&mut definition, &path, &text));
        return Err(text.unwrap_or(wrong));
    };
    let Some(first) = attached.first() else {
        return Err(match read(&with_interface(&words, place, ALL)) {
            Ok(_) => said(&mut definition, &path, NOT_ATTACHED).unwrap_or(wrong),
            Err(_) => wrong,
        });
    };
    let whole = with_interface(&words, place, first);
    let is_meant = attached.len() == 1 && path != [NEVER_GUESSES];
    match read(&whole) {
        Ok(matches) if is_meant => return Ok(matches),
        Ok(_) => {}
        // With the interface that is meant, the message is about the word that is wrong.
        Err(second) if is_meant => return Err(second),
        Err(_) => return Err(wrong),
    }
    let more = if whole.len() > place + 1 { " ..." } else { "" };
    let text = format!(
        "limiter is attached to {}: write the interface, as in `limiter {} {first}{more}`",
        attached.join(", "),
        path.join(" ")
    );
    Err(said(&mut definition, &path, &text).unwrap_or(wrong))
}

/// The message about an interface that is left out, for a user who may not look it up.
fn without_root(path: &[String], has_operands: bool) -> String {
    let more = if has_operands { " ..." } else { "" };
    format!(
        "without root, limiter cannot look up the interface: run it with sudo, or write the interface, as in `limiter {} eth0{more}`",
        path.join(" ")
    )
}

/// The verb of a command line.
pub fn verb(words: &[OsString], command: &Command) -> Option<String> {
    let verb = Verb::of(words, command)?;
    verb.path.into_iter().next()
}

/// Puts the only attached interface in front of a file that stands where the interface belongs, as in `config diff FILE`.
fn with_attached_before_file(words: Vec<OsString>, definition: &Command) -> Vec<OsString> {
    let place = Verb::of(&words, definition).filter(Verb::has_interfaces_and_file);
    let place = place.map(|verb| verb.place).filter(|place| {
        let word = words.get(*place).and_then(|word| word.to_str());
        word.is_some_and(|word| operands::is_file(word) && !is_interface(word))
    });
    match (place, attached().as_deref()) {
        (Some(place), Some([only])) => with_interface(&words, place, only),
        _ => words,
    }
}

/// The error about the only operand of a verb with a file, if it looks like a file and is a name of an interface too.
fn ambiguous(words: &[OsString], definition: &mut Command) -> Option<clap::Error> {
    let verb = Verb::of(words, definition).filter(Verb::has_interfaces_and_file)?;
    let mut operands = plain(words, verb.place);
    let (_, word) = operands.next()?;
    if operands.next().is_some() || !operands::is_file(word) || !is_interface(word) {
        return None;
    }
    let path = verb.path.clone();
    let text = format!(
        "'{word}' is a name of an interface, and looks like a file: write ./{word} for the file, as in `limiter {} {} ./{word}`",
        path.join(" "),
        interface(word).ok()?
    );
    said(definition, &path, &text)
}

/// The error about a word that was read as an interface, is none, and has a tip that says what is meant.
fn misread(matches: &ArgMatches, definition: &Command) -> Option<clap::Error> {
    let (mut verb, mut matches, mut command) = (None, matches, definition);
    while let Some((name, inner)) = matches.subcommand() {
        command = command.find_subcommand(name)?;
        verb.get_or_insert(name);
        matches = inner;
    }
    let mut positionals = command.get_positionals();
    let interfaces = positionals.find(|given| is_interfaces(given))?;
    let words = matches.get_raw(interfaces.get_id().as_str())?;
    let has_tip = |word: &&str| operands::about(verb.unwrap_or_default(), word).is_some();
    let mut wrong = words.filter_map(|word| word.to_str()).filter(has_tip);
    let word = wrong.find(|word| !is_interface(word))?;
    let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
    let text = |text: &str| ContextValue::String(text.to_owned());
    error.insert(ContextKind::InvalidArg, text("<IFACE>"));
    error.insert(ContextKind::InvalidValue, text(word));
    Some(error)
}

/// The words with an interface at a place.
fn with_interface(words: &[OsString], place: usize, interface: &str) -> Vec<OsString> {
    let mut whole = words.to_vec();
    whole.insert(place, interface.into());
    whole
}

/// An error with this text and the usage of the verb.
fn said(definition: &mut Command, path: &[String], text: &str) -> Option<clap::Error> {
    definition.build();
    let inner = path.iter().try_fold(definition, |command, name| {
        command.find_subcommand_mut(name)
    });
    Some(inner?.error(ErrorKind::MissingRequiredArgument, text))
}

/// Adds to a verb that works on an attachment that its interface may be left out, and to each verb with interfaces the
/// option `-i`, which [`parse`] replaces.
pub fn describe(command: Command) -> Command {
    let path = command.get_name().to_owned();
    let guesses = !WITHOUT_ATTACHMENT.contains(&&*path) && path != NEVER_GUESSES;
    let inner: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
    let inner: Vec<_> = inner.into_iter().map(str::to_owned).collect();
    let command = inner.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, describe)
    });
    if !command.get_positionals().any(is_interfaces) {
        return command;
    }
    let option = Arg::new("named")
        .short('i')
        .long("interface")
        .value_name(IFACE)
        .action(ArgAction::Append)
        .hide(true);
    let with_default = |given: Arg| {
        let help = given
            .get_help()
            .filter(|_| guesses && is_interfaces(&given));
        match help.map(ToString::to_string) {
            Some(help) if !help.contains("Default:") => given.help(format!(
                "{help}. Default: the attached one, if it is the only one"
            )),
            _ => given,
        }
    };
    command.arg(option).mut_args(with_default)
}

fn is_interfaces(given: &Arg) -> bool {
    given
        .get_value_names()
        .is_some_and(|names| names.iter().any(|name| name == IFACE))
}

/// Returns true for a mistake that a missing first operand causes: the others are read in its place.
fn may_lack(kind: ErrorKind) -> bool {
    use ErrorKind::{InvalidValue, MissingRequiredArgument, ValueValidation};

    [InvalidValue, MissingRequiredArgument, ValueValidation].contains(&kind)
}

/// The verb of a command line.
struct Verb<'a> {
    command: &'a Command,
    /// Its names, from the outermost one.
    path: Vec<String>,
    /// The place of the word behind it.
    place: usize,
}

impl<'a> Verb<'a> {
    fn has_interfaces_and_file(&self) -> bool {
        let is_file = |given: &Arg| given.get_id() == "file";
        let mut all = self.command.get_positionals();
        all.next().is_some_and(is_interfaces) && all.any(is_file)
    }

    fn of(words: &[OsString], command: &'a Command) -> Option<Self> {
        let mut verb = Self {
            command,
            path: Vec::new(),
            place: 0,
        };
        for (place, word) in plain(words, 1) {
            let Some(inner) = verb.command.find_subcommand(word) else {
                break;
            };
            verb.command = inner;
            verb.path.push(inner.get_name().to_owned());
            verb.place = place + 1;
        }
        (!verb.path.is_empty()).then_some(verb)
    }
}

/// The words from a place on that are no options, with their places.
fn plain(words: &[OsString], from: usize) -> impl Iterator<Item = (usize, &str)> {
    let words = words.iter().enumerate().skip(from);
    let words = words.map_while(|(place, word)| Some((place, word.to_str()?)));
    let words = words.take_while(|(_, word)| *word != "--");
    words.filter(|(_, word)| !word.starts_with('-'))
}

fn names_interface(word: &OsString) -> bool {
    word.to_str().is_some_and(is_interface)
}

/// Puts the interfaces of `-i` behind the verb, where its operands begin. Returns false if there are none, or if the verb
/// has no interfaces or reads the option itself.
fn with_named(words: Vec<OsString>, command: &Command) -> (Vec<OsString>, bool) {
    let (mut rest, mut names) = (Vec::new(), Vec::new());
    let mut given = words.iter();
    while let Some(word) = given.next() {
        let text = word.to_str().unwrap_or_default();
        let name = match text {
            "--" => {
                rest.push(word.clone());
                rest.extend(given.by_ref().cloned());
                break;
            }
            "-i" | "--interface" => given.next().and_then(|name| name.to_str()),
            _ if text.starts_with("--") => text.strip_prefix("--interface="),
            _ => text.strip_prefix("-i"),
        };
        match name {
            Some(name) => names.push(name),
            None => rest.push(word.clone()),
        }
    }
    if names.is_empty() {
        return (words, false);
    }
    let mut rest = in_order(rest, command);
    let place = Verb::of(&rest, command)
        .filter(|verb| verb.command.get_positionals().any(is_interfaces))
        .map(|verb| verb.place);
    match place {
        Some(place) => {
            rest.insert(place, names.join(",").into());
            (rest, true)
        }
        None => (words, false),
    }
}

/// Puts the verb in front of the interface and of the list, as in `deny eth0 list` and `tier partners list`, and adds `add` to `deny eth0 192.0.2.7`.
fn in_order(mut words: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let (outer, from) = match Verb::of(&words, command) {
        Some(verb) => (verb.command, verb.place),
        None => (command, 1),
    };
    if let Some(place) = needless(&words, outer.get_name(), from) {
        words.remove(place);
        return words;
    }
    if !outer.has_subcommands() {
        return words;
    }
    let operands: Vec<_> = plain(&words, from).collect();
    let Some((place, first)) = operands.first().copied() else {
        return words;
    };
    let is_prefix = |word: &str| prefix(word).is_ok() || word.parse::<IpAddr>().is_ok();
    let is_first_interface = is_interface(first);
    // A named list also stands in front of its verb.
    let most = usize::from(is_first_interface) + usize::from(outer.get_name() == NAMED_LIST);
    let mut behind = operands.iter().skip(1).take(most);
    if let Some(&(behind, _)) = behind.find(|(_, word)| outer.find_subcommand(word).is_some()) {
        let verb = words.remove(behind);
        words.insert(place, verb);
        return words;
    }
    let begins = is_prefix(first) || is_first_interface;
    let adds = begins && operands.iter().any(|(_, word)| is_prefix(word));
    if adds && outer.find_subcommand("add").is_some() {
        words.insert(from, "add".into());
    }
    words
}

/// The place of a word that other programs have behind such a verb, in front of the interface: `bans list`, `limit add`.
fn needless(words: &[OsString], verb: &str, from: usize) -> Option<usize> {
    let mut operands = plain(words, from);
    let (place, first) = operands.next()?;
    let next = operands.next();
    let is_needless = match verb {
        "bans" | "status" => ["list", "ls", "show"].contains(&first),
        "limit" => {
            ["add", "new", "set", "change"].contains(&first)
                && next.is_some_and(|(_, next)| is_interface(next))
        }
        _ => false,
    };
    (is_needless && !is_interface(first)).then_some(place)
}

/// The interfaces that limiter is attached to; `None` if this user may not know them.
fn attached() -> Option<Vec<String>> {
    descriptors::early(Attachment::names()).and_then(Result::ok)
}
