//! `edit` and `config save` change the file as the user wants it, keep its comments, its owner and its mode, and lose no
//! change of others; a change that is not kept undoes itself.

use std::{
    fs::{self, Permissions},
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::{Child, ChildStdout, Stdio},
};

use limiter_tests::{
    command::{Outcome, binary, prepared},
    eventually,
    files::{Folder, at_driver},
    hosts::{Hosts, on},
    need_kernel,
};

const FILE: &str = r#"# Of the web team: ask before you change it.
[lists]
allow = [
    "198.51.100.7", # the office
]

# All packets.
[[limit]]
name = "all"
rate = "10/second"  # measured in May
"#;

/// A host with limiter on `eth0`, from a file.
struct Edited {
    hosts: Hosts,
    folder: Folder,
    file: String,
}

impl Edited {
    fn new() -> Self {
        let (hosts, folder) = (Hosts::new(), Folder::new());
        let file = folder.write("limiter.toml", at_driver(FILE));
        hosts.run(&["attach", "eth0", "--config", &file]);
        Self {
            hosts,
            folder,
            file,
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    /// The rate in force.
    fn rate(&self) -> String {
        let status = self.hosts.status();
        status["limits"][0]["rate"].as_str().unwrap().to_owned()
    }

    /// A script that is the editor; its first argument is the text.
    fn script(&self, lines: &str) -> String {
        let script = self
            .folder
            .write("editor", format!("#!/bin/sh\nset -e\n{lines}\n"));
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        script
    }

    /// Runs `limiter edit` with this editor, and these lines as the answers.
    fn edit(&self, options: &str, editor: &str, answers: &str) -> Outcome {
        let line = format!("edit eth0{options}");
        let mut command = prepared(&line);
        command.env("EDITOR", editor).env("LIMITER", binary());
        command.env_remove("VISUAL").env_remove("SUDO_EDITOR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = on(&self.hosts.server, || {
            command.stderr(Stdio::piped()).spawn()
        })
        .unwrap();
        // A command that ends early does not read all.
        let _ = child.stdin.take().unwrap().write_all(answers.as_bytes());
        Outcome::of(line, child.wait_with_output().unwrap())
    }

    /// Starts an edit with a trial of this time. Its standard input is open.
    fn begin(&self, time: &str) -> (Child, ChildStdout) {
        let mut command = prepared(&["edit", "eth0", "--try", time]);
        command.env("EDITOR", FASTER);
        command.env_remove("VISUAL").env_remove("SUDO_EDITOR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = on(&self.hosts.server, || command.spawn()).unwrap();
        let output = child.stdout.take().unwrap();
        (child, output)
    }

    /// Files in the private folder, apart from the lock.
    fn left_behind(&self) -> usize {
        let pins = self.hosts.pins();
        let folder = Path::new("/run/limiter/edit").join(pins.file_name().unwrap());
        let files = fs::read_dir(folder).unwrap().flatten();
        files.filter(|file| file.file_name() != "lock").count()
    }
}

impl Drop for Edited {
    fn drop(&mut self) {
        let pins = self.hosts.pins();
        let folder = Path::new("/run/limiter/edit").join(pins.file_name().unwrap());
        let _ = fs::remove_dir_all(folder);
    }
}

/// Reads a running command's output until it ends with a text.
fn read_until(output: &mut ChildStdout, text: &str) {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(text.as_bytes()) {
        let read = output.read(&mut byte).unwrap();
        assert!(read > 0, "'{text}': {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
}

const FASTER: &str = "sed -i s,10/second,20/second,";

#[test]
fn edit_shows_tries_keeps_and_saves() {
    need_kernel!();
    let edited = Edited::new();
    chown(&edited.file, Some(1_234), Some(1_235)).unwrap();
    fs::set_permissions(&edited.file, Permissions::from_mode(0o640)).unwrap();
    let outcome = edited.edit("", FASTER, "t\nk\n");
    outcome.expect(0);
    for words in [
        "eth0: rate 10/s -> 20/s\n",
        "(t)ry it for 2m, (e)dit again, (d)iscard? ",
        "ON TRIAL",
        "(k)eep and save it, (r)evert it? ",
        "eth0: kept\n",
        "eth0: saved in ",
    ] {
        assert!(outcome.stdout.contains(words), "'{words}': {outcome:#?}");
    }
    assert_eq!(edited.rate(), "20/s");
    let text = at_driver(FILE).replace("10/second", "20/second");
    assert_eq!(edited.text(), text);
    let metadata = fs::metadata(&edited.file).unwrap();
    let owner = (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777);
    assert_eq!(owner, (1_234, 1_235, 0o640));
    assert!(edited.hosts.status()["try_until"].is_null());
    assert_eq!(edited.left_behind(), 0);
    // The file is that of the next reload.
    assert!(edited.hosts.run("reload eth0").contains("unchanged"));
}

#[test]
fn mistakes_are_named_and_edited_again_or_discarded() {
    need_kernel!();
    let edited = Edited::new();
    for (mistake, message) in [
        ("sed -i s/rate/rat/", "line "),
        // Found by the attachment, not in the text.
        ("sed -i s/xdp/generic/", "mode is fixed"),
    ] {
        let outcome = edited.edit("", mistake, "d\n");
        outcome.expect(0);
        assert!(outcome.stderr.contains(message), "{outcome:#?}");
        assert!(outcome.stdout.contains("discarded"), "{outcome:#?}");
    }
    assert_eq!(edited.text(), at_driver(FILE));
    let again = edited.script(
        "sed -i 's/rat =/rate =/; t; s/rate =/rat =/' \"$1\"; sed -i s,10/sec,30/sec, \"$1\"",
    );
    let outcome = edited.edit("", &again, "e\nt\nk\n");
    outcome.expect(0);
    assert_eq!(edited.rate(), "30/s", "{outcome:#?}");
    assert!(edited.text().contains("30/second"));
    let same = edited.edit("", "true", "");
    assert!(same.stdout.contains("unchanged"), "{same:#?}");
    edited
        .edit("", "false", "")
        .expect_error(1, &["false failed", "nothing was changed"]);
}

#[test]
fn change_that_is_not_kept_undoes_itself() {
    need_kernel!();
    let edited = Edited::new();
    for answers in ["t\nr\nd\n", "t\n", "d\n", ""] {
        edited.edit("", FASTER, answers).expect(0);
        assert_eq!(edited.rate(), "10/s", "{answers:?}");
    }
    // The session is lost: no process is left.
    let (mut child, mut output) = edited.begin("5s");
    child.stdin.as_mut().unwrap().write_all(b"t\n").unwrap();
    read_until(&mut output, "(k)eep and save it, (r)evert it? ");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the trial is over", || edited.rate() == "10/s");
    assert_eq!(edited.text(), at_driver(FILE));
    let next = edited.edit("", "true", "");
    let words = "an edit that was interrupted";
    assert!(next.stderr.contains(words), "{next:#?}");
    assert_eq!(edited.left_behind(), 1);
}

#[test]
fn answer_that_comes_too_late_keeps_nothing() {
    need_kernel!();
    let edited = Edited::new();
    let (mut child, mut output) = edited.begin("1s");
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"t\n").unwrap();
    read_until(&mut output, "(k)eep and save it, (r)evert it? ");
    read_until(&mut output, "(e)dit again, (d)iscard? ");
    input.write_all(b"k\nd\n").unwrap();
    drop(input);
    read_until(&mut output, "discarded");
    assert!(child.wait().unwrap().success());
    assert_eq!(edited.rate(), "10/s");
    assert_eq!(edited.text(), at_driver(FILE));
}

#[test]
fn change_of_the_file_by_others_is_not_lost() {
    need_kernel!();
    let edited = Edited::new();
    let both = edited.script(&format!(
        "sed -i s,10/second,20/second, \"$1\"; echo '# theirs' >> {}",
        edited.file
    ));
    let outcome = edited.edit("", &both, "t\nk\nl\n");
    outcome.expect(1);
    for words in ["changed by another program", "has your text"] {
        assert!(outcome.stderr.contains(words), "'{words}': {outcome:#?}");
    }
    assert_eq!(edited.text(), format!("{}# theirs\n", at_driver(FILE)));
    assert_eq!(edited.rate(), "20/s");
    // Now the file differs from the settings in force.
    let outcome = edited.edit("", "true", "q\n");
    assert!(
        outcome
            .stderr
            .contains("does not have the settings in force"),
        "{outcome:#?}"
    );
    let overwrites = edited.script(&format!(
        "sed -i s,20/s,40/s, \"$1\"; echo '# theirs' >> {}",
        edited.file
    ));
    let outcome = edited.edit("", &overwrites, "i\nt\nk\no\n");
    outcome.expect(0);
    assert_eq!(edited.rate(), "40/s");
    assert_eq!(
        edited.text().matches("# theirs").count(),
        1,
        "{}",
        edited.text()
    );
    assert!(
        edited.text().contains("# measured in May"),
        "{}",
        edited.text()
    );
}

#[test]
fn nothing_is_locked_while_the_editor_runs_and_its_folder_is_private() {
    need_kernel!();
    let edited = Edited::new();
    let modes = edited.folder.path("modes");
    let script = edited.script(&format!(
        "stat -c %a-%u \"$1\" \"$(dirname \"$1\")\" > {modes}\n\
         $LIMITER set eth0 --burst 7 > {modes}.set\n\
         $LIMITER edit eth0 2> {modes}.second || true\n\
         sed -i s,10/second,20/second, \"$1\""
    ));
    let outcome = edited.edit("", &script, "t\nk\n");
    outcome.expect(0);
    assert_eq!(fs::read_to_string(&modes).unwrap(), "600-0\n700-0\n");
    let set = fs::read_to_string(format!("{modes}.set")).unwrap();
    assert!(set.contains("burst"), "{set}");
    let second = fs::read_to_string(format!("{modes}.second")).unwrap();
    assert!(
        second.contains("another `limiter edit eth0` runs"),
        "{second}"
    );
    // The change by others is one of those that are shown, because the file undoes it.
    assert!(
        outcome.stdout.contains("eth0: burst 7 -> 10 by the rate")
            || outcome.stdout.contains("burst 7"),
        "{outcome:#?}"
    );
}

#[test]
fn save_keeps_comments_and_diff_shows_what_a_reload_would_change() {
    need_kernel!();
    let edited = Edited::new();
    let hosts = &edited.hosts;
    fs::set_permissions(&edited.file, Permissions::from_mode(0o604)).unwrap();
    hosts.run("set eth0 --rate 50/s");
    hosts.run("allow add eth0 192.0.2.7");
    let shown = hosts.run("config diff eth0");
    let lines: Vec<_> = shown.lines().skip(1).collect();
    let [rate, allow] = ["eth0: rate 50/s -> 10/s", "eth0: allow: 0 added, 1 removed"];
    assert!(lines.contains(&rate) && lines.contains(&allow), "{shown}");
    let saved = hosts.run("config save eth0");
    assert!(saved.contains("eth0: rate 10/s -> 50/s\n"), "{saved}");
    let text = at_driver(FILE)
        .replace("10/second", "50/s")
        .replace("# the office\n", "# the office\n    \"192.0.2.7\",\n");
    assert_eq!(edited.text(), text);
    let mode = fs::metadata(&edited.file).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o604);
    let shown = hosts.run("config diff eth0");
    assert!(shown.contains("no difference"), "{shown}");
    let again = hosts.run("config save eth0");
    assert!(again.contains("unchanged"), "{again}");
    let new = edited.folder.path("new.toml");
    hosts.run(&["config", "save", "eth0", &new]);
    let shown = hosts.run(&["config", "diff", "eth0", &new]);
    assert!(shown.contains("no difference"), "{shown}");
    assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o600);
    let json = hosts.json(&["config", "diff", "eth0", &new, "--json"]);
    assert_eq!(json["changes"], serde_json::json!([]), "{json}");
}

#[test]
fn save_refuses_files_that_it_cannot_change_in_place() {
    need_kernel!();
    let edited = Edited::new();
    let hosts = &edited.hosts;
    hosts.run("set eth0 --rate 50/s");
    for content in ["rat = 5\n", "not TOML at all", "\u{1}"] {
        let other = edited.folder.write("other", content);
        let outcome = hosts.limiter(&["config", "save", "eth0", &other]);
        outcome.expect(1);
        assert!(
            outcome.stderr.contains("nothing was changed"),
            "{outcome:#?}"
        );
        assert_eq!(fs::read_to_string(&other).unwrap(), content);
    }
    let limit = |interface, name| {
        format!("interfaces = \"{interface}\"\n\n[[limit]]\nname = \"{name}\"\nrate = \"5/s\"\n")
    };
    for (text, why) in [
        (limit("eth7", "default"), "is for eth7, not eth0"),
        (limit("eth0", "ssh"), "has other limits (ssh)"),
    ] {
        let other = edited.folder.write("other", &text);
        hosts
            .limiter(&["config", "save", "eth0", &other])
            .expect_error(1, &[why, "nothing was changed: name another file"]);
        assert_eq!(fs::read_to_string(&other).unwrap(), text);
    }
    hosts
        .limiter("config save eth0 /nowhere/x.toml")
        .expect_error(1, &["/nowhere/x.toml cannot be written"]);
    hosts.limiter("config save eth0 /dev/null").expect(1);
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 5/s");
    hosts
        .limiter("config save eth0")
        .expect_error(1, &["/etc/limiter/eth0.toml"]);
}
