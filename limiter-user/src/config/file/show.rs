//! [`Settings`] as a file that can be used again.

use std::fmt::Display;

use super::{
    super::{Burst, Control, Limit, Settings, Unit, lists},
    adaptive, packets,
    written::{array, text},
};
use crate::config::{ALLOW, DENY, Prefixes};

/// The most prefixes on one line.
const ON_ONE_LINE: usize = 4;

/// Prints a file that `parse` reads as the same settings. Defaults are left out, apart from those that users ask for
/// most: the mode, the number of sources, and the limit on new sources.
pub fn show(interfaces: &[String], settings: &Settings) -> String {
    let mut out = Lines::default();
    out.array("interfaces", interfaces);
    out.line("mode", text(settings.mode));
    out.line("max_sources", settings.max_sources);
    match &settings.new_sources {
        None => out.line("new_sources", text("none")),
        Some(new_sources) => {
            out.line("new_sources", text(new_sources.rate));
            out.some("new_sources_burst", new_sources.burst);
            let on = new_sources.second_chance;
            out.some("second_chance", (!on).then_some(on));
        }
    }
    out.array("exempt", &settings.exempt.names());
    out.changed("malformed", settings.malformed);
    out.shadow(settings.shadow);
    out.some("fleet", settings.fleet.as_ref().map(text));
    out.control(settings);
    out.lists(settings);
    for limit in &settings.limits {
        out.limit(limit);
    }
    out.0
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, key: &str, value: impl Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    fn some(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.line(key, value);
        }
    }

    fn changed<T: Display + Default + PartialEq>(&mut self, key: &str, value: T) {
        self.some(key, (value != T::default()).then(|| text(value)));
    }

    fn array(&mut self, key: &str, values: &[impl Display]) {
        self.some(
            key,
            (!values.is_empty()).then(|| array(values.iter().map(text))),
        );
    }

    fn shadow(&mut self, on: bool) {
        self.some("shadow", on.then_some(on));
    }

    fn control(&mut self, settings: &Settings) {
        let control = settings.control;
        if !settings.exempt.control || control == Control::default() {
            return;
        }
        self.0.push_str("\n[control]\n");
        self.line("rate", text(control.rate));
        self.some("burst", control.burst.map(burst));
        let total = control.total.map(|total| total.to_string());
        let total = total.unwrap_or_else(|| "none".to_owned());
        self.line("total", text(total));
    }

    fn lists(&mut self, settings: &Settings) {
        let of_fleet = |name: &str| settings.fleet_lists.contains(name);
        let is_default = |(name, prefixes): &(&str, &Prefixes)| {
            (*name == ALLOW || *name == DENY) && prefixes.is_empty() && !of_fleet(name)
        };
        let lists = settings.lists.all();
        let written: Vec<_> = lists.filter(|list| !is_default(list)).collect();
        if !written.is_empty() {
            self.0.push_str("\n[lists]\n");
        }
        for (name, prefixes) in written {
            // A dot would begin a nested table.
            let key = if name.contains('.') {
                text(name)
            } else {
                name.to_owned()
            };
            let prefixes = match (of_fleet(name), prefixes.is_empty()) {
                (false, _) => prefix_array(prefixes),
                (true, true) => "{ scope = \"fleet\" }".to_owned(),
                (true, false) => {
                    format!(
                        "{{ scope = \"fleet\", prefixes = {} }}",
                        prefix_array(prefixes)
                    )
                }
            };
            self.line(&key, prefixes);
        }
    }

    fn limit(&mut self, limit: &Limit) {
        self.0.push_str("\n[[limit]]\n");
        self.line("name", text(&limit.name));
        let matches = Some(&limit.matches).filter(|matches| !matches.is_everything());
        self.some("match", matches.map(packets::show));
        self.changed("key", limit.key);
        self.line("rate", text(limit.rate));
        self.some("burst", limit.burst.map(burst));
        self.some("cost", limit.cost);
        self.changed("algorithm", limit.algorithm);
        self.some("hold", limit.hold.map(text));
        self.some("adaptive", limit.adaptive.as_ref().map(adaptive::show));
        self.changed("proof", limit.proof);
        self.shadow(limit.shadow);
        self.changed("scope", limit.scope);
    }
}

fn prefix_array(prefixes: &Prefixes) -> String {
    let written: Vec<_> = prefixes
        .iter()
        .map(|prefix| text(lists::show(prefix)))
        .collect();
    if written.len() <= ON_ONE_LINE {
        return array(written.into_iter());
    }
    format!("[\n    {},\n]", written.join(",\n    "))
}

/// Prints a burst. A number without a unit fits either unit, so packets need theirs.
fn burst(burst: Burst) -> String {
    const THOUSAND: u64 = 1_000;
    match burst.unit {
        None => burst.tokens.to_string(),
        Some(Unit::Packets) if !burst.tokens.is_multiple_of(THOUSAND) => text(format!(
            "{}.{:03}k",
            burst.tokens / THOUSAND,
            burst.tokens % THOUSAND
        )),
        Some(_) => text(burst),
    }
}
