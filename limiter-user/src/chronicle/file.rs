//! The file of an interface: one JSON document on each line.
//!
//! A process that is killed while it writes may leave a part of a line. The next one begins a new line, and readers leave
//! out what is no entry, and count it.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, anyhow};
use nix::fcntl::{Flock, FlockArg};

use super::trials;
use crate::{
    files::{Folder, Place, name_of},
    observe::{Entry, History},
};

/// The most bytes of a file. If an entry does not fit, the older half goes.
const MOST: u64 = 1 << 20;
/// The age at which an entry goes, once a file is cleared.
const OLDEST: Duration = Duration::from_secs(90 * 86_400);
/// The most files in the folder: those of network namespaces that are gone stay until then.
const FILES: usize = 256;
/// The pauses while another command writes, and their number. One that is stopped meanwhile keeps nobody waiting.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: usize = 100;

fn place() -> Result<Place> {
    Place::lasting("history")
}

fn file_name(interface: &str) -> Result<String> {
    Ok(format!("{}.jsonl", name_of(interface)?))
}

/// Adds an entry to the file of an interface.
pub fn append(interface: &str, entry: &Entry) -> Result<()> {
    let folder = place()?.make()?;
    let name = file_name(interface)?;
    append_in(&folder, &name, entry, SystemTime::now())
        .with_context(|| format!("{} cannot be written", folder.path_of(&name).display()))
}

fn append_in(folder: &Folder, name: &str, entry: &Entry, now: SystemTime) -> Result<()> {
    let mut file = locked(folder, name)?;
    let line = serde_json::to_string(entry)? + "\n";
    let length = file.metadata()?.len();
    if length == 0 {
        folder.bound(FILES, name);
    }
    if length + line.len() as u64 > MOST || begins_too_early(&mut file, now)? {
        let mut text = String::from_utf8_lossy(&whole(&mut file)?).into_owned();
        clear(&mut text, now);
        return Ok(folder.replace(name, (text + &line).as_bytes())?);
    }
    let begin = if ends_within_a_line(&mut file, length)? {
        "\n"
    } else {
        ""
    };
    file.seek(SeekFrom::End(0))?;
    let written = file.write_all(format!("{begin}{line}").as_bytes());
    if written.is_err() {
        // On a full disk, a part may have fitted.
        file.set_len(length)?;
    }
    Ok(written?)
}

/// The file of that name, which no other process writes.
fn locked(folder: &Folder, name: &str) -> Result<Flock<File>> {
    for _ in 0..PAUSES {
        match Flock::lock(folder.file(name)?, FlockArg::LockExclusiveNonblock) {
            // Another process may have replaced it meanwhile.
            Ok(file) if folder.leads_to(name, &*file) => return Ok(file),
            Ok(_) => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
    Err(anyhow!("another command keeps it locked"))
}

fn whole(file: &mut File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(2 * MOST).read_to_end(&mut text)?;
    Ok(text)
}

fn ends_within_a_line(file: &mut File, length: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last != [b'\n'])
}

/// Returns true if the first entry is older than entries may be.
fn begins_too_early(file: &mut File, now: SystemTime) -> io::Result<bool> {
    let mut begin = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(1 << 16).read_to_end(&mut begin)?;
    let begin = String::from_utf8_lossy(&begin);
    let first = begin.lines().next().and_then(entry_of);
    Ok(first.is_some_and(|first| !is_within(&first, OLDEST, now)))
}

/// Removes old entries, and the older half if half of the room is used nevertheless.
fn clear(text: &mut String, now: SystemTime) {
    let half = usize::try_from(MOST / 2).unwrap_or(usize::MAX);
    let young = |line: &&str| entry_of(line).is_some_and(|entry| is_within(&entry, OLDEST, now));
    let mut kept: Vec<&str> = text.lines().filter(young).collect();
    let mut room = half;
    let fits = kept.iter().rev().take_while(|line| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or(0);
        left.is_some()
    });
    let count = fits.count();
    kept.drain(..kept.len() - count);
    *text = kept.iter().map(|line| format!("{line}\n")).collect();
}

fn entry_of(line: &str) -> Option<Entry> {
    serde_json::from_str(line).ok()
}

/// Returns true if an entry is not older than `age`. A clock that is behind makes none old.
fn is_within(entry: &Entry, age: Duration, now: SystemTime) -> bool {
    let time = humantime::parse_rfc3339_weak(&entry.time);
    time.is_ok_and(|time| now.duration_since(time).unwrap_or_default() <= age)
}

/// The history of an interface: entries that are not older than `age`. `on_trial`: a trial runs now.
pub fn read(interface: &str, age: Duration, on_trial: bool) -> Result<History> {
    let mut history = History {
        interface: interface.to_owned(),
        entries: Vec::new(),
        unreadable: 0,
    };
    let Some(folder) = place()?.open()? else {
        return Ok(history);
    };
    let name = file_name(interface)?;
    let text = match folder.read(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(history),
        file => file.and_then(|mut file| whole(&mut file)),
    };
    let text =
        text.with_context(|| format!("{} cannot be read", folder.path_of(&name).display()))?;
    let mut entries = Vec::new();
    for line in String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| !line.is_empty())
    {
        match entry_of(line) {
            Some(entry) => entries.push(entry),
            None => history.unreadable += 1,
        }
    }
    let now = SystemTime::now();
    let entries = trials::with_ends(entries, now, on_trial);
    let young = entries.into_iter();
    history.entries = young.filter(|entry| is_within(entry, age, now)).collect();
    Ok(history)
}

/// Returns true if the last event about a flood is this one, and not older than a minute: another process has written it.
pub fn has_just(interface: &str, event: &str) -> bool {
    let recent = read(interface, Duration::from_secs(60), false);
    let recent = recent.map(|history| history.entries).unwrap_or_default();
    let mut floods = recent
        .iter()
        .rev()
        .filter(|entry| entry.event.starts_with("flood-"));
    floods.next().is_some_and(|last| last.event == event)
}

#[cfg(test)]
mod tests {
    use limiter_kernel::sys::clock;

    use super::*;

    fn entry(time: SystemTime, detail: &str) -> Entry {
        Entry {
            time: clock::shown(time),
            event: "change".to_owned(),
            user: "alice".to_owned(),
            uid: 1_000,
            command: "set".to_owned(),
            details: vec![detail.to_owned()],
            trial_until: None,
        }
    }

    fn lines(folder: &Folder) -> Vec<Option<Entry>> {
        let mut file = folder.file("eth0").expect("there");
        let text = String::from_utf8(whole(&mut file).expect("read")).expect("text");
        assert!(text.ends_with('\n'), "{text:?}");
        text.lines().map(entry_of).collect()
    }

    #[test]
    fn unfinished_line_of_a_killed_process_spoils_no_other() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = Folder::make(base.path(), &["own"]).expect("made");
        let now = SystemTime::now();
        let first = entry(now, "a\nb\u{1b}");
        append_in(&folder, "eth0", &first, now).expect("written");
        let mut file = folder.file("eth0").expect("there");
        file.seek(SeekFrom::End(0)).expect("there");
        file.write_all(b"{\"time\":\"20").expect("written");
        append_in(&folder, "eth0", &entry(now, "c"), now).expect("written");
        let found = lines(&folder);
        assert_eq!(found.len(), 3);
        assert_eq!((&found[0], &found[1]), (&Some(first), &None));
        assert_eq!(found[2], Some(entry(now, "c")));
    }

    #[test]
    fn size_and_age_are_bounded() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = Folder::make(base.path(), &["own"]).expect("made");
        let now = SystemTime::now();
        let old = now - OLDEST - Duration::from_secs(9);
        append_in(&folder, "eth0", &entry(old, "old"), old).expect("written");
        append_in(&folder, "eth0", &entry(now, "new"), now).expect("written");
        assert_eq!(lines(&folder), [Some(entry(now, "new"))]);
        let long = "x".repeat(10_000);
        for _ in 0..300 {
            append_in(&folder, "eth0", &entry(now, &long), now).expect("written");
            let size = folder
                .file("eth0")
                .expect("there")
                .metadata()
                .expect("there")
                .len();
            assert!(size <= MOST, "{size}");
        }
        let found = lines(&folder);
        assert!((50..110).contains(&found.len()), "{}", found.len());
        assert!(
            found
                .iter()
                .all(|line| line.as_ref() == Some(&entry(now, &long)))
        );
    }

    #[test]
    fn files_of_the_folder_are_bounded() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = Folder::make(base.path(), &["own"]).expect("made");
        let now = SystemTime::now();
        for number in 0..FILES + 9 {
            append_in(&folder, &format!("eth{number}"), &entry(now, "a"), now).expect("written");
        }
        assert_eq!(folder.names().expect("a folder").len(), FILES + 1);
    }
}
