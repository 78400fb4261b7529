use clap::Args;
use limiter_kernel::{Attachment, probe, sys::requirements};

use crate::{
    cli::shared::{ForPrograms, document, interface},
    plan::doctor::{bursts, diagnose, forwarded, forwarding, last, own_traffic, proof, room, vlan},
    show,
};

/// Predict the result of `attach`, and find obstacles
#[derive(Debug, Args)]
pub struct Doctor {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Doctor) -> anyhow::Result<()> {
    arguments.programs.answer();
    let interface = &arguments.interface;
    let machine = probe::machine()?;
    let device = probe::device(interface).await;
    let mut diagnosis = diagnose(interface, &machine, &device);
    let attachment = Attachment::open(interface).await.ok();
    let settings = attachment.as_ref();
    let settings = settings.map(|attachment| &attachment.record.settings);
    diagnosis.findings.push(own_traffic(settings));
    if let Some(attachment) = &attachment {
        let record = &attachment.record;
        diagnosis.findings.extend(last(record.instead.as_deref()));
        let finding = room(&record.settings, record.frame_max);
        diagnosis.findings.push(finding);
        let frames = [record.frame_max, attachment.frame_max()];
        diagnosis
            .findings
            .extend(bursts(interface, &record.settings, frames));
        if let Ok(device) = &device {
            let settings = &record.settings;
            let found = [
                forwarding(settings, device),
                forwarded(settings, device),
                vlan(settings, device, diagnosis.mode),
            ];
            diagnosis.findings.extend(found.into_iter().flatten());
        }
        let driver = device.ok().and_then(|device| device.driver);
        let has_cookies = requirements::has_syn_cookies();
        let unanswered = attachment.unanswered();
        let proof = proof(
            &record.settings,
            has_cookies,
            driver.as_deref(),
            &unanswered,
        );
        diagnosis.findings.extend(proof);
    }
    let text = || show::doctor::diagnosis(&diagnosis);
    document(arguments.programs.json, &diagnosis, text)?;
    // A single problem with its text, several by their names.
    let error = match diagnosis.problems().as_slice() {
        [] => return Ok(()),
        [problem] => format!(
            "a problem for attach: {}: {}",
            problem.found,
            problem.advice.as_deref().unwrap_or_default()
        ),
        several => {
            let (count, names) = (several.len(), several.iter().map(|finding| finding.check));
            let names = names.collect::<Vec<_>>().join(", ");
            format!("{count} problems for attach ({names}): follow the advice of each")
        }
    };
    Err(anyhow::anyhow!("{interface}: {error}"))
}
