//! Answers of the exporter for a user without privileges.

use super::{document, interfaces::is_all, note, unique};
use crate::{
    observe::request::{Answer, Request},
    viewer::Viewer,
};

/// Asks about each of these interfaces, and prints the answers. A failure on one does not stop the others; the command
/// ends with the last one.
pub async fn by_exporter(
    viewer: &Viewer,
    names: &[String],
    json: bool,
    request: impl Fn(String) -> Request,
) -> anyhow::Result<()> {
    let names: Vec<String> = match is_all(names) {
        true => {
            let (snapshot, _) = viewer.snapshot(&[]).await?;
            let interfaces = snapshot.status.interfaces.into_iter();
            interfaces.map(|interface| interface.name).collect()
        }
        false => unique(names).into_iter().map(str::to_owned).collect(),
    };
    let mut failed: Option<anyhow::Error> = None;
    for name in names {
        match viewer.ask::<Answer>(&request(name)).await {
            Ok(answer) => document(json, &answer.document, || answer.text.clone())?,
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    note(&earlier.to_string());
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
