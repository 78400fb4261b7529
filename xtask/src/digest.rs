//! Computes digests to detect changed files.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::paths;

/// The digest of each of `names` in `folder`. The digest of a missing file is "missing".
pub fn digests(names: &[String], folder: &Path) -> Result<BTreeMap<String, String>> {
    let digest = |name: &String| Ok((name.clone(), digest(&folder.join(name))?));
    names.iter().map(digest).collect()
}

/// The SHA-256 of a file. For a folder: over the sorted paths, lengths and contents of its files.
fn digest(path: &Path) -> Result<String> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {path:?}"));
    let mut hasher = Sha256::new();
    if !path.exists() {
        return Ok("missing".to_owned());
    }
    if path.is_file() {
        hasher.update(read(path)?);
        return Ok(hexadecimal(&hasher.finalize()));
    }
    let mut files = BTreeMap::new();
    for file in paths::files_in(path)? {
        files.insert(file.strip_prefix(path)?.display().to_string(), file);
    }
    for (name, file) in files {
        let content = read(&file)?;
        hasher.update(format!("{name}\0{}\0", content.len()));
        hasher.update(content);
    }
    Ok(hexadecimal(&hasher.finalize()))
}

/// The bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{digest, fs};

    #[test]
    fn folder_digest_depends_on_file_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            fs::create_dir_all(folder.path().join("deep")).unwrap();
            fs::write(folder.path().join(name), content).unwrap();
            digest(folder.path()).unwrap()
        };
        let first = write("deep/a", "12");
        assert_eq!(first, write("deep/a", "12"), "the same content");
        let second = write("deep/a", "1");
        assert_ne!(first, second, "a byte less");
        assert_ne!(first, write("deep/b", "2"), "the same bytes in two files");
        assert_ne!(second, write("deep/b", ""), "an empty file more");
    }
}
