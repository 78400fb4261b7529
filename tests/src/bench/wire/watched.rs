//! Installs limiter by `attach`, with `limiter watch` beside it.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use limiter_user::{
    kernel::ops::{attach::attach, detach::detach, set::Wanted},
    testbed::{Host, INTERFACE},
};

use super::{case::Case, limiter::Configured, testbed::Testbed};

/// An attachment and its watcher, until it is dropped.
pub struct Watched {
    server: Host,
    watcher: Option<Child>,
}

impl Watched {
    /// Attaches, and begins to watch. Events go to `/dev/null`.
    pub fn install(case: Case, testbed: &Testbed) -> Result<Self> {
        let wanted = Wanted::new(Configured::Plain.settings(case)?);
        let server = testbed.server.clone();
        let attached = server
            .namespace
            .block_on(|| async move { attach(INTERFACE, &wanted).await });
        attached??;
        let mut watched = Self {
            server,
            watcher: None,
        };
        watched.watch()?;
        Ok(watched)
    }

    fn watch(&mut self) -> Result<()> {
        let program = env::current_exe()?.with_file_name("limiter");
        let spawned = self.server.namespace.run(|| {
            Command::new(&program)
                .args(["watch", INTERFACE])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
        })?;
        let spawned = spawned.with_context(|| {
            let program = program.display();
            format!("{program} cannot be run: `cargo build --release -p limiter-user`")
        });
        let watcher = self.watcher.insert(spawned?);
        let stderr = watcher.stderr.take().context("no standard error")?;
        let mut text = String::new();
        BufReader::new(stderr).read_line(&mut text)?;
        ensure!(text.contains("drops are shown"), "{}", text.trim_end());
        Ok(())
    }
}

impl Drop for Watched {
    /// Detaches limiter, because pins outlive namespaces.
    fn drop(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
        let _ = self
            .server
            .namespace
            .block_on(|| async { detach(INTERFACE).await });
    }
}
