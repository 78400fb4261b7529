//! Words of a fixed vocabulary (modes, algorithms, names of lists), which types hold as `&'static str`, read back from
//! what another process of limiter has written.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer, de::Error};

/// A word of the program's own.
pub type Word = &'static str;

/// More than the program has: whoever writes more different ones is not limiter.
const VOCABULARY: usize = 256;
/// Bytes of the longest.
const LONGEST: usize = 64;

static KNOWN: Mutex<BTreeSet<Word>> = Mutex::new(BTreeSet::new());

/// The word with this text. Each is kept once, for good.
fn known(text: &str) -> Result<Word, String> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = known.get(text) {
        return Ok(word);
    }
    if known.len() >= VOCABULARY || text.len() > LONGEST {
        return Err(format!("no word of the program: {text:.64}"));
    }
    let word: Word = text.to_owned().leak();
    known.insert(word);
    Ok(word)
}

/// Reads one.
pub fn one<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    known(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads one, or none.
pub fn perhaps<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let word = text.map(|text| known(&text)).transpose();
    word.map_err(D::Error::custom)
}

/// Reads several.
pub fn several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Word>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let words = texts.iter().map(|text| known(text)).collect();
    Result::map_err(words, D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_once() {
        let one = known("native").expect("a word");
        let other = known(&String::from("native")).expect("a word");
        assert!(std::ptr::eq(one, other));
        assert!(known(&"x".repeat(LONGEST + 1)).is_err());
    }
}
