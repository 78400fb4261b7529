//! Runs the command as a user does.

use std::{
    fs,
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use crate::testbed::{INTERFACE, Namespace};

/// Runs `ip` with the words of `line` in a network namespace. It must succeed.
#[track_caller]
pub fn ip(namespace: &Namespace, line: &str) {
    namespace.ip(line).unwrap();
}

/// The binary, built once for this run of the tests. Without cargo (`cargo xtask test --kernels`), `LIMITER_BINARY` is
/// its path.
pub fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(built) = std::env::var_os("LIMITER_BINARY") {
            return built.into();
        }
        let profile = profile();
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "limiter-user",
            "--bin",
            "limiter",
        ]);
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        // Cargo has set variables for the test's package. A build script that reads them (of `ring`) would run again,
        // here and at the next build, and everything that depends on it would be compiled again.
        for (name, _) in std::env::vars_os() {
            let is_of_package =
                |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
            if name.to_str().is_some_and(is_of_package) {
                build.env_remove(name);
            }
        }
        assert!(
            build.status().unwrap().success(),
            "building the binary failed"
        );
        profile.join("limiter")
    })
}

/// The folder of this program's build profile, `<target>/<profile>`. Tests are in `deps` there.
fn profile() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folders = own.ancestors().skip(1);
    let mut folders = folders.skip_while(|folder| folder.ends_with("deps"));
    folders.next().unwrap().to_owned()
}

/// A folder among the build results for files that tests keep from run to run.
pub fn folder_of_tests() -> PathBuf {
    let folder = profile().with_file_name("tmp");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Copies the command. By another process: if this one wrote the copy, the fork of another test could have it open for
/// writing, and the kernel would refuse to run it ("Text file busy").
pub fn copy_binary(destination: impl AsRef<Path>) {
    let status = Command::new("cp")
        .arg(binary())
        .arg(destination.as_ref())
        .status();
    assert!(
        status.unwrap().success(),
        "{}",
        destination.as_ref().display()
    );
}

/// Result of a command.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command line.
    pub line: String,
    /// Exit status; -1 if a signal ended the command.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// The result of a finished command.
    pub fn of(line: String, output: Output) -> Self {
        Self {
            line,
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Panics unless the exit status is `status`.
    #[track_caller]
    pub fn expect(&self, status: i32) {
        assert_eq!(self.status, status, "{self:#?}");
    }

    /// Panics unless the command failed with `status`, with a message on standard error that contains all of `words`,
    /// and with no standard output. The message is one line, or has clap's layout for a wrong command line.
    #[track_caller]
    pub fn expect_error(&self, status: i32, words: &[&str]) {
        self.expect(status);
        assert_eq!(self.stdout, "", "{self:#?}");
        let of_clap = status == 2
            && self.stderr.starts_with("error: ")
            && self
                .stderr
                .ends_with("For more information, try '--help'.\n");
        let one_line = self.stderr.lines().count() == 1;
        assert!(of_clap || one_line, "one line: {self:#?}");
        for word in words {
            assert!(self.stderr.contains(word), "wanted '{word}': {self:#?}");
        }
    }
}

/// Arguments of a command: words, or a line of words with spaces between them.
pub trait Arguments {
    /// The words.
    fn words(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn words(&self) -> Vec<&str> {
        self.split(' ').collect()
    }
}

impl Arguments for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Arguments for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Arguments for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

/// Returns `limiter` with these arguments, ready to run.
///
/// Tests are about the program at the driver unless they say otherwise. Mode `auto` takes the network stack on a veth, so
/// an `attach eth0` that leaves the mode open gets `--mode xdp`.
pub fn prepared(arguments: &(impl Arguments + ?Sized)) -> Command {
    const DECIDES: [&str; 8] = [
        "--mode",
        "--hook",
        "--direction",
        "--config",
        "--chain",
        "--before",
        "--after",
        "--help",
    ];
    let words = arguments.words();
    let mut command = Command::new(binary());
    command.args(&words);
    let is_open = !words
        .iter()
        .any(|word| DECIDES.iter().any(|option| word.starts_with(option)));
    let names_veth = |word: &&str| word.split(',').any(|name| name == INTERFACE);
    if words.first() == Some(&"attach") && words.iter().any(names_veth) && is_open {
        command.args(["--mode", "xdp"]);
    }
    command
}

/// Runs `limiter` with these arguments and this text on standard input.
pub fn limiter_fed(arguments: &(impl Arguments + ?Sized), text: &str) -> Outcome {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    input.rewind().unwrap();
    Outcome::of(
        format!("limiter {}", arguments.words().join(" ")),
        prepared(arguments).stdin(input).output().unwrap(),
    )
}

/// Runs `limiter` with these arguments.
pub fn limiter(arguments: &(impl Arguments + ?Sized)) -> Outcome {
    Outcome::of(
        format!("limiter {}", arguments.words().join(" ")),
        prepared(arguments).output().unwrap(),
    )
}
