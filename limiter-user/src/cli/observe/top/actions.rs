//! Actions of the view's user, executed like the commands of the same names.

use crate::{
    cli::{
        limit::reset,
        lists::edit::{self, Edit},
        shared::output::Outcome,
    },
    kernel::ops::set::Lasts,
    show::top::Action,
};

/// The warning to show before the user confirms the action.
pub async fn warning(interface: &str, action: Action) -> Option<String> {
    let Action::List { list, network, .. } = action else {
        return None;
    };
    edit::warning(edit_of(action), interface, list, &[network].into()).await
}

/// Executes the action. Returns the result or the error as text.
pub async fn run(interface: &str, action: Action) -> Result<String, String> {
    let result = match action {
        Action::List { list, network, .. } => {
            let prefixes = [network].into();
            edit::put_in_force(edit_of(action), Lasts::ForGood, interface, list, &prefixes).await
        }
        Action::Reset { network } => reset::reset(interface, network.addr()).await,
    };
    let words = |Outcome { text, notes, .. }| {
        let said = [text].into_iter().chain(notes);
        said.collect::<Vec<_>>().join("; ")
    };
    result.map(words).map_err(|error| error.to_string())
}

fn edit_of(action: Action) -> Edit {
    match action {
        Action::List { add: false, .. } => Edit::Remove,
        _ => Edit::Add(None),
    }
}
