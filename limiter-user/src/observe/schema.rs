//! Compares `docs/schema`, the JSON Schema of each `--json`, with the schema of the types.

use std::{env, fs, path::Path};

use schemars::{JsonSchema, generate::SchemaSettings};

use super::{Listing, Status, event, replay, source};
use crate::plan::doctor;

/// Environment variable: if set, the files are written, not compared.
const WRITE: &str = "LIMITER_WRITE_SCHEMA";

fn schema<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

#[test]
fn schemas_in_the_documents_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    let made = [
        ("check", schema::<source::Check>()),
        ("doctor", schema::<doctor::Diagnosis>()),
        ("list", schema::<Listing>()),
        ("replay", schema::<replay::Replay>()),
        ("status", schema::<Status>()),
        ("top", schema::<source::Top>()),
        ("watch", schema::<event::Event>()),
    ];
    for (name, made) in made {
        let file = folder.join(format!("{name}.json"));
        if env::var_os(WRITE).is_some() {
            fs::write(&file, &made).unwrap();
        }
        let written = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == made,
            "docs/schema/{name}.json is not what the types say: {WRITE}=1 cargo test -p limiter-user --lib schema"
        );
    }
}
