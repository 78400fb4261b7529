//! What the flags of `attach` and `replay` mean.

use crate::{
    cli::{
        args::{Exemption, Limiting},
        output::{Usage, usage},
    },
    config::{Exempt, Limit, Lists, Mode, Scope, Settings, settings::DEFAULT_LIMIT},
};

/// The settings that are written as flags; `fleet` shares the limit.
pub fn settings(flags: &Limiting, mode: Mode, fleet: Option<&str>) -> anyhow::Result<Settings> {
    let Some(rate) = flags.rate else {
        return Err(
            Usage("a rate is missing: write --rate RATE, or --config FILE".to_owned()).into(),
        );
    };
    let limit = Limit {
        burst: flags.burst,
        key: flags.key,
        scope: if fleet.is_some() {
            Scope::Fleet
        } else {
            Scope::Host
        },
        ..Limit::new(DEFAULT_LIMIT, rate)
    };
    let exempt = |what| flags.exempt.contains(&what);
    let settings = Settings {
        mode,
        max_sources: flags.max_sources,
        new_sources: flags.new_sources.with_burst(flags.new_sources_burst),
        exempt: Exempt {
            established: exempt(Exemption::Established),
            control: exempt(Exemption::Control),
        },
        malformed: flags.malformed,
        shadow: flags.shadow,
        lists: Lists {
            allow: flags.allow.iter().copied().collect(),
            deny: flags.deny.iter().copied().collect(),
            ..Lists::default()
        },
        limits: vec![limit],
        fleet: fleet.map(str::to_owned),
        ..Settings::default()
    };
    settings.check().map_err(usage)?;
    Ok(settings)
}
