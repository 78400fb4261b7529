//! Runs other programs.

use std::{
    env,
    ffi::OsStr,
    iter, panic,
    process::{Command, ExitCode, ExitStatus},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// Prints a message about a slow step to standard error.
pub fn progress(message: &str) {
    eprintln!("xtask: {message}");
}

/// Does `work`, and shows on a terminal that it goes on, if it takes more than a second. Neither may print.
pub fn step<T>(name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    const PATIENCE: Duration = Duration::from_secs(1);
    const INTERVAL: Duration = Duration::from_millis(200);
    // The library draws nothing if standard error is no terminal.
    let bar = ProgressBar::new_spinner().with_message(name);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        bar.set_style(style);
    }
    let (done, awaited) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        let bar = &bar;
        scope.spawn(move || {
            let mut pause = PATIENCE;
            while awaited.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
                pause = INTERVAL;
            }
        });
        // The thread ends with the channel, also after a panic.
        let _done = done;
        work()
    });
    bar.finish_and_clear();
    result
}

/// Runs `command` with its output on the terminal. Any result other than success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!(
            "`{}` failed ({status}): see its messages above",
            line(command)
        );
    }
    Ok(())
}

/// Runs `command` with its output on the terminal, and returns its exit code.
pub fn exit_code(command: &mut Command) -> Result<ExitCode> {
    let code = status(command)?.code();
    Ok(code
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    let status = command.status();
    status.with_context(|| format!("cannot start `{}`: is it installed?", line(command)))
}

/// The output of `command`. The error ends with the last line of its error output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output();
    let output =
        output.with_context(|| format!("cannot start `{}`: is it installed?", line(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let complaint = stderr
            .lines()
            .last()
            .unwrap_or("it printed no reason")
            .trim();
        bail!(
            "`{}` failed ({}): {complaint}",
            line(command),
            output.status
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cargo that runs this command, to work on the root workspace with the developer's own settings.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::paths::root());
    // `cargo run` has set variables about the package of this process. A build script that reads them (of `ring`)
    // would run again at each change, and everything that depends on it would be compiled again.
    forget(&mut cargo, |name| {
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    });
    cargo
}

/// Removes from `command` every variable that controls cargo, rustc and rustup from outside: the developer's flags and
/// profiles, and the settings of the outer `cargo run`. Variables with the folders of files are kept.
pub fn forget_rust_settings(command: &mut Command) {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_TARGET_DIR",
        "RUSTUP_DIST_",
        "RUSTUP_HOME",
    ];
    forget(command, |name| {
        (name.starts_with("CARGO") || name.starts_with("RUST"))
            && !KEPT.iter().any(|kept| name.starts_with(kept))
    });
}

fn forget(command: &mut Command, is_refused: impl Fn(&str) -> bool) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(&is_refused) {
            command.env_remove(name);
        }
    }
}

/// rustup, without outside settings.
pub fn rustup() -> Command {
    let mut rustup = Command::new("rustup");
    forget_rust_settings(&mut rustup);
    rustup
}

/// The command that runs `program` with the nightly toolchain.
pub fn nightly(program: impl AsRef<OsStr>) -> Command {
    let mut nightly = rustup();
    nightly.args(["run", "nightly"]).arg(program);
    nightly
}

/// Runs `work` on each of `items`, with this many threads, which take the items in order. Returns the results in the
/// same order.
pub fn in_parallel<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let waiting = Mutex::new(items.into_iter().enumerate());
    let take = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let thread = || -> Vec<_> {
        iter::from_fn(take)
            .map(|(index, item)| (index, work(item)))
            .collect()
    };
    let mut done: Vec<(usize, Result<R>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().flat_map(joined).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, done)| done).collect()
}

/// The result of a thread. Panics if the thread panicked.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| panic::resume_unwind(panic))
}

pub fn today() -> Result<String> {
    let date = output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(date.trim().to_owned())
}

/// The program's name and its arguments, as a developer would type them.
fn line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(OsStr::new("?"));
    let words = iter::once(program).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
