//! Fuzz target for the record that is pinned beside a program: JSON for later commands, also of another version.

use limiter_kernel::state::record::Record;

use super::message::expect_one_line;

/// Reads a record. A valid one makes a program or gives a reason why not, may be changed, and reads back as an equal
/// one.
pub(super) fn run(bytes: &[u8]) {
    let record = match Record::read(bytes) {
        Ok(record) => record,
        Err(why) => return expect_one_line(&why),
    };
    let json = serde_json::to_vec(&record).unwrap();
    assert_eq!(Record::read(&json).as_ref(), Ok(&record));
    // The map has zeros after the record; a truncated record is invalid.
    assert_eq!(
        Record::read(&[&json[..], &[0; 7]].concat()).as_ref(),
        Ok(&record)
    );
    assert!(Record::read(&json[..json.len() - 1]).is_err());
    if let Err(why) = record.config() {
        expect_one_line(&why.to_string());
    }
    let mut settings = record.settings.clone();
    settings.shadow = !settings.shadow;
    settings.limits.reverse();
    for limit in &mut settings.limits {
        limit.rate.amount = limit.rate.amount.div_ceil(2);
    }
    if let Ok((changed, _)) = record.changed(settings, None, record.frame_max, 1_000_000_000_000) {
        let _ = changed.config();
    }
}
