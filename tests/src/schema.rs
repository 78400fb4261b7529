//! Checks JSON against `docs/schema`, with an independent validator.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::need;

/// Checks the JSON. Also rejects keys that the schema does not name, because scripts must not rely on them.
const VALIDATE: &str = "
import json, jsonschema, sys
def close(schema):
    if isinstance(schema, dict):
        if 'properties' in schema:
            schema['additionalProperties'] = False
        for inner in schema.values():
            close(inner)
    if isinstance(schema, list):
        for inner in schema:
            close(inner)
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
close(schema)
errors = list(jsonschema.Draft202012Validator(schema).iter_errors(json.load(sys.stdin)))
for error in errors:
    print(error.json_path, error.message)
sys.exit(len(errors) > 0)
";

/// True if Python has the validator. Otherwise, `test` is reported as skipped.
pub fn has_validator(test: &str) -> bool {
    let mut python = Command::new("python3");
    let import = python.args(["-c", "import jsonschema"]).output();
    let there = import.is_ok_and(|import| import.status.success());
    there || need::missing(test, "no python3-jsonschema")
}

/// Errors in the JSON of `verb`, one per line; empty if it matches `docs/schema`.
///
/// # Panics
///
/// If Python cannot be run.
pub fn faults(verb: &str, value: &Value) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    let schema = folder.join(format!("{verb}.json"));
    let mut python = Command::new("python3");
    python.args(["-W", "ignore", "-c", VALIDATE]).arg(&schema);
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().unwrap();
    let text = value.to_string();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let faults = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.success(), faults.is_empty(), "{faults}");
    faults
}
