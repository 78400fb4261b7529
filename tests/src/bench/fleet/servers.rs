//! Runs the stores of a fleet benchmark, and reads their counters.

use anyhow::{Context as _, Result};
use limiter_tests::redis::{Cluster, Redis};

/// One server, or a cluster of three.
pub struct Servers(Vec<Redis<'static>>);

/// Counters of one server at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub received: f64,
    pub sent: f64,
    /// Processor time in seconds.
    pub cpu: f64,
    /// Bytes of memory in use, without that of connections.
    pub memory: f64,
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

    /// The counters of each server.
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
