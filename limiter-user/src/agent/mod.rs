//! `limiter agent`: the attachments of this network namespace as members of their fleets. The agent itself is in
//! limiter-fleet.

mod host;
mod listen;

use anyhow::{Context, anyhow};
use limiter_fleet::agent::{Agent, Options};
use tokio::sync::mpsc;

use crate::sandbox;

/// Maximum commands that ask at the same time.
const ASKING: usize = 16;

/// Runs until `stop`.
/// Fails if the agent cannot start: the store's address is not valid, or another agent runs already.
pub async fn run(options: Options, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let agent = Agent::new(options, host::Here)?;
    let listener = listen::socket().context(
        "an agent runs in this network namespace already (`ss -xlp` shows limiter-agent): end it first",
    )?;
    sandbox::confine(sandbox::TO_CHANGE)?;
    let (questions, asked) = mpsc::channel(ASKING);
    let listen = async {
        loop {
            if let Ok((socket, _)) = listener.accept().await {
                listen::answer(socket, questions.clone());
            }
        }
    };
    tokio::select! {
        ended = agent.run(asked, stop) => ended.map_err(|why| anyhow!(why)),
        () = listen => Ok(()),
    }
}
