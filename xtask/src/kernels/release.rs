//! The kernels that are booted: their names, their packages, and the folder in which they are kept.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;

use crate::{
    apt::Apt,
    paths,
    process::{progress, run},
    processors::Architecture,
};

/// The kernels to boot, oldest first; those with all drivers; the one of the machine that counts instructions; those of
/// other processors; real-time kernels; locked down ones; and the one of the machine whose processors and clock change.
const RELEASES: &str = include_str!("releases.txt");

/// A kernel to boot.
#[derive(Clone, Copy)]
pub struct Release {
    /// Name on the command line.
    pub name: &'static str,
    pub architecture: Architecture,
    /// The package that depends on the current kernel.
    meta: &'static str,
    /// Debian suites that have the kernel, separated by commas. The newest version in them is used.
    suites: &'static str,
    /// Parameters of the kernel besides those of every machine.
    pub parameters: &'static str,
}

/// The script that keeps a kernel and its modules, and the modules, besides those that they need.
const KEEP: &str = include_str!("keep.sh");
const WANTED: &str = "veth bonding 8021q bridge macvlan macvtap team team_mode_activebackup virtio_pci virtio_net vmxnet3 e1000 e1000e 8139cp 8139too igb sch_fq sch_ingress cls_matchall act_police tun wireguard \
    xfrm_interface ip_vti ip6_vti esp4 esp6 xfrm_user sha512_generic jitterentropy_rng drbg ctr gcm seqiv ghash-generic ipip sit ip6_tunnel ip_gre ip6_gre fou fou6 vxlan geneve crc32c_generic sctp \
    l2tp_netlink l2tp_eth ifb vrf ipvlan macsec hsr cls_u32 act_mirred";
/// The folder of a kernel's modules, in the folder of the kernel.
pub const MODULES: &str = "modules";
/// The file with [`WANTED`], in the folder of a kernel.
const WANTED_FILE: &str = "wanted";

/// The machine that counts instructions.
pub const COUNTED: &str = "counted";
/// Environment variable: if set, the pages with results are written.
pub const WRITE_DOCS: &str = "LIMITER_WRITE_DOCS";

/// The packages of a kernel. Before Linux 7, everything is in the first one.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

/// The names of all kernels, as values of the command line.
pub fn names() -> PossibleValuesParser {
    let names = RELEASES.lines().filter_map(|line| line.split(';').next());
    PossibleValuesParser::new(names)
}

/// The folder of the kernels, their boot image, and their logs.
pub fn folder() -> PathBuf {
    paths::target().join("kernels")
}

impl Release {
    /// The kernels with these names; without names, all.
    pub fn named(names: &[String]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for line in RELEASES.lines() {
            let fields: Vec<_> = line.split(';').collect();
            let &[name, architecture, meta, suites, parameters] = &*fields else {
                bail!("releases.txt: {line}");
            };
            if names.is_empty() || names.iter().any(|wanted| wanted == name) {
                found.push(Self {
                    name,
                    architecture: Architecture::of(Some(architecture))?,
                    meta,
                    suites,
                    parameters,
                });
            }
        }
        Ok(found)
    }

    /// Downloads the image and the drivers of a kernel into a folder of its name. An existing folder with the wanted
    /// modules is used as it is: delete it to get a newer kernel.
    pub fn fetch(self) -> Result<()> {
        let kept = folder().join(self.name);
        if fs::read_to_string(kept.join(WANTED_FILE)).is_ok_and(|wanted| wanted == WANTED) {
            return Ok(());
        }
        progress(&format!("downloading Debian's kernel {}", self.name));
        let lists = folder().join("apt").join(self.name);
        let suites: Vec<_> = self.suites.split(',').collect();
        let apt = Apt::new(&lists, &suites, self.architecture.debian)?;
        let mut parts = apt.needed(self.meta)?;
        parts.retain(|part| PARTS.iter().any(|start| part.starts_with(start)));
        let tree = paths::scratch()?;
        apt.unpack(&parts, tree.path())?;
        // Copies to a temporary folder first: half a kernel must not look complete.
        let new = kept.with_extension("new");
        let mut keep = Command::new("sh");
        keep.args(["-c", KEEP, "keep"]).arg(&new);
        run(keep.args(WANTED.split(' ')).current_dir(tree.path()))?;
        fs::write(new.join(WANTED_FILE), WANTED).context("cannot keep the kernel")?;
        // A folder of an earlier build lacks modules.
        let _ = fs::remove_dir_all(&kept);
        fs::rename(new, kept).context("cannot keep the kernel")
    }
}
