//! The kernels, and the Debian suites that have them.

use anyhow::{Result, bail};

/// A kernel to boot.
#[derive(Debug)]
pub struct Release {
    /// Name on the command line.
    pub name: &'static str,
    /// Debian suites that have the kernel. The newest version in them is used.
    pub suites: &'static [&'static str],
    /// Whether limiter supports the kernel. If not, `attach` must refuse.
    pub supported: bool,
}

/// Creates an entry of the list.
pub const fn release(
    name: &'static str,
    suites: &'static [&'static str],
    supported: bool,
) -> Release {
    Release {
        name,
        suites,
        supported,
    }
}

/// All kernels, oldest first.
const RELEASES: [Release; 4] = [
    release("5.10", &["bullseye"], false),
    release("6.1", &["bookworm"], true),
    release("6.12", &["trixie"], true),
    release("newest", &["trixie-backports", "sid"], true),
];

/// The kernels with these names; all kernels if there are none.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Release>> {
    let known = || RELEASES.iter();
    if let Some(stranger) = names
        .iter()
        .find(|name| known().all(|release| release.name != **name))
    {
        let names: Vec<_> = known().map(|release| release.name).collect();
        bail!(
            "no kernel is called {stranger}: choose among {}",
            names.join(", ")
        );
    }
    let wanted =
        |release: &&Release| names.is_empty() || names.iter().any(|name| name == release.name);
    Ok(known().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn all_or_those_that_are_named() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            chosen(&wanted)
                .map(|found| found.iter().map(|release| release.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["5.10", "6.1", "6.12", "newest"]);
        assert_eq!(names(&["newest", "6.1"]).unwrap(), ["6.1", "newest"]);
        let error = names(&["4.19"]).unwrap_err().to_string();
        assert!(error.contains("4.19") && error.contains("6.12"), "{error}");
    }
}
