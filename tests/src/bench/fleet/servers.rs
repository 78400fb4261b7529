//! The servers, and what they say of themselves.

use anyhow::{Context as _, Result};
use limiter_tests::redis::{Cluster, Redis};

/// One, or three that are one.
pub struct Servers(Vec<Redis<'static>>);

/// What one server had done up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Bytes that came.
    pub received: f64,
    /// Bytes that went.
    pub sent: f64,
    /// Seconds of processor time.
    pub cpu: f64,
    /// Bytes of memory that are in use, but for what is kept for connections.
    pub memory: f64,
    /// Keys.
    pub keys: f64,
}

impl Servers {
    pub fn start(cluster: bool) -> Self {
        Self(if cluster {
            Cluster::start().nodes
        } else {
            vec![Redis::start()]
        })
    }

    pub fn url(&self) -> String {
        self.0[0].url()
    }

    /// What each of them has done.
    pub fn done(&self) -> Result<Vec<Done>> {
        self.0.iter().map(done).collect()
    }
}

fn done(server: &Redis<'_>) -> Result<Done> {
    let info = server.cli(&["INFO", "stats", "cpu", "memory"]);
    let field = |name: &str| -> Result<f64> {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(field, _)| *field == name);
        let (_, text) = field.with_context(|| format!("the server says nothing of {name}"))?;
        Ok(text.trim().parse()?)
    };
    Ok(Done {
        received: field("total_net_input_bytes")?,
        sent: field("total_net_output_bytes")?,
        cpu: field("used_cpu_user")? + field("used_cpu_sys")?,
        memory: field("used_memory")? - field("mem_clients_normal")?,
        keys: server.cli(&["DBSIZE"]).parse()?,
    })
}
