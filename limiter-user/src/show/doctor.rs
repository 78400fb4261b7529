//! The output of `doctor`.

use clap::ValueEnum;

use crate::plan::doctor::{Diagnosis, Finding, Mode};

/// One line per finding, and the mode to expect from `attach`.
pub fn diagnosis(diagnosis: &Diagnosis) -> String {
    let widest = |of: fn(&Finding) -> usize| diagnosis.findings.iter().map(of).max().unwrap_or(0);
    let level = widest(|finding| name(&finding.level).len());
    let check = widest(|finding| finding.check.len());
    let mut text = String::new();
    for finding in &diagnosis.findings {
        let advice = finding.advice.as_ref();
        text.push_str(&format!(
            "{:level$}  {:check$}  {}{}\n",
            name(&finding.level),
            finding.check,
            finding.found,
            advice.map_or_else(String::new, |advice| format!(": {advice}"))
        ));
    }
    // Without an interface there is no mode to expect.
    if diagnosis
        .findings
        .iter()
        .any(|finding| finding.check == "driver")
    {
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
        Mode::Unknown => {
            format!(
                "{interface}: native or generic mode: only `limiter attach {interface}` can tell\n"
            )
        }
        known => format!(
            "{interface}: expect {} mode from `limiter attach {interface}`\n",
            name(&known)
        ),
    }
}

/// A value's name in the output.
fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
