//! Makes a container image of the binary alone: an OCI image layout in an archive, for `podman load` and others. Needs
//! no daemon.

use std::{path::Path, process::Command};

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    VERSION,
    binary::Binary,
    packages,
    tree::{Tree, read},
};
use crate::{
    digest::hexadecimal,
    paths,
    process::{output, run},
};

/// The start of the media types of an image's parts.
const OCI: &str = "application/vnd.oci.image";

/// Makes the image. Returns the file's name.
pub fn image(binary: &Binary, scratch: &Path, out: &Path, epoch: u64) -> Result<String> {
    let file = format!("limiter-{VERSION}-{}.oci.tar", binary.architecture.name);
    let tar = scratch.join("layer");
    packages::tar(&files(binary, scratch)?.root, &["usr"], &tar, epoch)?;
    let content = sha256(&read(&tar)?);
    run(&mut binary.gzip(&tar))?;
    let layer = read(&scratch.join("layer.gz"))?;

    let layout = Layout(Tree {
        root: scratch.join("oci"),
    });
    let layer = layout.blob("layer.v1.tar+gzip", &layer)?;
    let created =
        output(Command::new("date").args(["--utc", "--date", &format!("@{epoch}"), "+%FT%TZ"]))?;
    let config = json!({
        "architecture": binary.architecture.debian,
        "os": "linux",
        "created": created.trim(),
        "config": {
            "Entrypoint": ["/usr/bin/limiter"],
            "Labels": { "org.opencontainers.image.version": VERSION },
        },
        "rootfs": { "type": "layers", "diff_ids": [content] },
    });
    let config = layout.blob("config.v1+json", config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": format!("{OCI}.manifest.v1+json"),
        "config": config,
        "layers": [layer],
    });
    let mut manifest = layout.blob("manifest.v1+json", manifest.to_string().as_bytes())?;
    // The first name is the standard one, a tag alone; the second one, of containerd, is complete.
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        "io.containerd.image.name": format!("localhost/limiter:{VERSION}"),
    });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    let parts = ["blobs", "index.json", "oci-layout"];
    let version = json!({ "imageLayoutVersion": "1.0.0" });
    for (name, text) in [(parts[1], index), (parts[2], version)] {
        layout.0.write(name, text.to_string().as_bytes(), 0o644)?;
    }
    packages::tar(&layout.0.root, &parts, &out.join(&file), epoch)?;
    Ok(file)
}

/// The files in the container.
fn files(binary: &Binary, scratch: &Path) -> Result<Tree> {
    let tree = Tree {
        root: scratch.join("image"),
    };
    tree.write("usr/bin/limiter", &read(&binary.file)?, 0o755)?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let destination = Path::new("usr/share/doc/limiter").join(name);
        tree.write(destination, &read(&paths::root().join(name))?, 0o644)?;
    }
    Ok(tree)
}

/// An image layout. Each part is in a file that is named by its digest.
struct Layout(Tree);

impl Layout {
    /// Adds a part. Returns its description.
    fn blob(&self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let digest = sha256(bytes);
        let path = Path::new("blobs").join(digest.replace(':', "/"));
        self.0.write(path, bytes, 0o644)?;
        Ok(json!({ "mediaType": format!("{OCI}.{kind}"), "digest": digest, "size": bytes.len() }))
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hexadecimal(&Sha256::digest(bytes)))
}
