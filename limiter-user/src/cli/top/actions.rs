//! What the view lets its user do, by what the commands of the same names do.

use crate::{
    cli::{
        lists::{self, Edit},
        output::Outcome,
        reset,
    },
    kernel::ops::set::Lasts,
    show::top::Action,
};

/// What must be known before it is confirmed.
pub async fn warning(interface: &str, action: Action) -> Option<String> {
    let Action::List { list, network, .. } = action else {
        return None;
    };
    lists::warning(edit(action), interface, list, &[network].into()).await
}

/// Does it. Returns what was done or what went wrong, in words.
pub async fn run(interface: &str, action: Action) -> Result<String, String> {
    let result = match action {
        Action::List { list, network, .. } => {
            let prefixes = [network].into();
            lists::put_in_force(edit(action), Lasts::ForGood, interface, list, &prefixes).await
        }
        Action::Reset { network } => reset::reset(interface, network.addr()).await,
    };
    let words = |Outcome { text, notes, .. }| {
        let said = [text].into_iter().chain(notes);
        said.collect::<Vec<_>>().join("; ")
    };
    result.map(words).map_err(|error| error.to_string())
}

fn edit(action: Action) -> Edit {
    match action {
        Action::List { add: false, .. } => Edit::Remove,
        _ => Edit::Add(None),
    }
}
