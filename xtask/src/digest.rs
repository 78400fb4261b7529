//! Digests to detect changed files.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::paths;

/// The digest of each of `names` in `folder`. The digest of a missing file is "missing".
pub fn digests(names: &[String], folder: &Path) -> Result<BTreeMap<String, String>> {
    let digest = |name: &String| {
        let path = folder.join(name);
        let digest = if path.exists() {
            digest(&path)?
        } else {
            "missing".into()
        };
        Ok((name.clone(), digest))
    };
    names.iter().map(digest).collect()
}

/// The SHA-256 of a file. For a folder: over the sorted paths, lengths and contents of its files.
fn digest(path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    if path.is_file() {
        hasher.update(read(path)?);
        return Ok(format!("{:x}", hasher.finalize()));
    }
    let mut files = Vec::new();
    for file in paths::files_in(path)? {
        files.push(file.strip_prefix(path)?.display().to_string());
    }
    files.sort();
    for name in files {
        let content = read(&path.join(&name))?;
        hasher.update(format!("{name}\0{}\0", content.len()));
        hasher.update(content);
    }
    Ok(format!("{:x}", hasher.finalize()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path)
        .with_context(|| format!("cannot read {}: is the checkout whole?", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{digest, fs};

    #[test]
    fn of_a_folder_notices_where_each_byte_is() {
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
