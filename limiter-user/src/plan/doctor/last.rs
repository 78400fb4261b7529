//! Says that an interface has its last configuration, because that of the file cannot be applied.

use super::finding::{Finding, problem};

/// The finding of `doctor`. `why`: the reason; none if the settings are those of the file.
pub fn last(why: Option<&str>) -> Option<Finding> {
    let advice = "correct the file, and reload it";
    let found = |why| format!("the last configuration is in force, not that of the file: {why}");
    why.map(|why| problem(found(why), advice).of("file"))
}
