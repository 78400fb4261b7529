//! The output of `doctor`.

use clap::ValueEnum;

use crate::plan::doctor::{Diagnosis, Finding, Mode};

/// One line per finding, and the mode to expect from `attach`.
pub fn diagnosis(diagnosis: &Diagnosis) -> String {
    let widest = |width: fn(&Finding) -> usize| {
        let widths = diagnosis.findings.iter().map(width);
        widths.max().unwrap_or(0)
    };
    let level_width = widest(|finding| name(&finding.level).len());
    let check_width = widest(|finding| finding.check.len());
    let mut text = String::new();
    for finding in &diagnosis.findings {
        let advice = finding.advice.as_ref().map(|advice| format!(": {advice}"));
        let (level, found) = (name(&finding.level), &finding.found);
        let (check, advice) = (finding.check, advice.unwrap_or_default());
        text += &format!("{level:level_width$}  {check:check_width$}  {found}{advice}\n");
    }
    // Without an interface there is no mode to expect.
    let mut checks = diagnosis.findings.iter().map(|finding| finding.check);
    if checks.any(|check| check == "driver") {
        text.push_str(&mode_line(diagnosis));
    }
    text
}

fn mode_line(diagnosis: &Diagnosis) -> String {
    let interface = &diagnosis.interface;
    if !diagnosis.problems().is_empty() {
        return format!("{interface}: expect `limiter attach {interface}` to fail\n");
    }
    match diagnosis.mode {
        Mode::Unknown => format!(
            "{interface}: native or generic mode: only `limiter attach {interface}` can tell\n"
        ),
        known => format!(
            "{interface}: expect {} mode from `limiter attach {interface}`\n",
            name(&known)
        ),
    }
}

fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
