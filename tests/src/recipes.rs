//! Reads the cookbook's recipes, and other code blocks of documents.

/// The text of docs/cookbook.md.
pub const COOKBOOK: &str = include_str!("../../docs/cookbook.md");

/// The cookbook's code blocks in `language`, each with its heading.
pub fn blocks(language: &str) -> Vec<(&'static str, String)> {
    blocks_of(COOKBOOK, language)
}

/// The code blocks of another document.
pub fn blocks_of(document: &'static str, language: &str) -> Vec<(&'static str, String)> {
    let fence = format!("```{language}");
    let (mut heading, mut blocks, mut inside) = ("", Vec::new(), false);
    for line in document.lines() {
        match line.strip_prefix("## ") {
            Some(title) if !inside => heading = title,
            _ if line == fence => {
                inside = true;
                blocks.push((heading, String::new()));
            }
            _ if line == "```" => inside = false,
            _ if inside => blocks.last_mut().unwrap().1 += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// The configuration file under this heading.
///
/// # Panics
/// If there is no such file.
pub fn recipe(heading: &str) -> String {
    let found = blocks("toml").into_iter().find(|block| block.0 == heading);
    found.unwrap_or_else(|| panic!("no recipe '{heading}'")).1
}
