//! Compares documents that are made from the code with the code: `docs/schema` and `docs/reference`.

use std::{env, fs, path::Path};

use schemars::{JsonSchema, generate::SchemaSettings};

use crate::{
    adapt::simulate::Simulated,
    observe::{
        Bans, Changes, Difference, History, Listing, Status, WithWarnings,
        connections::OpenConnections,
        event, log, senders,
        settings::{CheckedFile, PresetFiles, ProposedFile, SettingsInForce},
        source,
    },
    plan::{
        doctor,
        flood::Explanation,
        replay::{PacketVerdict, Report},
    },
};

/// Environment variable: if set, the files are written, not compared.
const WRITE: &str = "LIMITER_WRITE_DOCS";

/// Fails if a file of `docs` is not `made`.
pub fn compare(name: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    if env::var_os(WRITE).is_some() {
        fs::write(&file, made).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == made,
        "docs/{name} is not made from this code: {WRITE}=1 cargo test -p limiter-user --lib"
    );
}

/// The JSON Schema of a type.
pub fn schema<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

#[test]
fn json_schemas_match_the_types() {
    for (name, made) in [
        ("adapt", schema::<WithWarnings<Simulated>>()),
        ("bans", schema::<WithWarnings<Bans>>()),
        ("changes", schema::<Changes>()),
        ("check", schema::<WithWarnings<source::Check>>()),
        ("config-check", schema::<WithWarnings<CheckedFile>>()),
        ("config-show", schema::<WithWarnings<SettingsInForce>>()),
        ("connections", schema::<WithWarnings<OpenConnections>>()),
        ("difference", schema::<WithWarnings<Difference>>()),
        ("doctor", schema::<WithWarnings<doctor::Diagnosis>>()),
        ("explain", schema::<WithWarnings<Explanation>>()),
        ("history", schema::<WithWarnings<History>>()),
        ("learn", schema::<WithWarnings<ProposedFile>>()),
        ("list", schema::<WithWarnings<Listing>>()),
        ("log", schema::<log::LogLine>()),
        ("preset", schema::<WithWarnings<PresetFiles>>()),
        ("replay", schema::<WithWarnings<Report>>()),
        ("status", schema::<WithWarnings<Status>>()),
        ("top", schema::<source::Top>()),
        ("verdicts", schema::<PacketVerdict<'_>>()),
        ("watch", schema::<event::Event>()),
        ("watch-by", schema::<senders::Senders>()),
    ] {
        compare(&format!("schema/{name}.json"), &made);
    }
}
