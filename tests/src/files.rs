//! Writes files for a test: configurations and lists.

use std::fs;

/// A configuration whose program runs at the driver, unless the text says otherwise. Mode `auto` takes the network stack on
/// a veth.
pub fn at_driver(text: impl std::fmt::Display) -> String {
    let text = text.to_string();
    let is_open = !text.contains("mode = ") && !text.contains("direction = \"out\"");
    let mode = if is_open { "mode = \"xdp\"\n" } else { "" };
    format!("{mode}{text}")
}

/// A folder for one test, removed with it.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// An empty folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of the file called `name`.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file. Returns its path.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}
