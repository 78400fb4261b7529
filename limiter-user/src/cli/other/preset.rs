//! `limiter preset`. The presets are the recipes of the cookbook: a heading "## `NAME`: SUMMARY", text, and a link to the
//! file in docs/recipes.

use std::path::Path;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use limiter_config::{Invalid, Prefixes, Settings, file, names::interface};

use crate::{
    cli::shared::{ForPrograms, document, note, write},
    observe::settings::{PresetFile, PresetFiles},
};

const COOKBOOK: &str = include_str!("../../../../docs/cookbook.md");

/// The recipes with these names, and their files.
macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../docs/recipes/", $name, ".toml")))),*]
    };
}

/// The name and the configuration file of each preset.
pub const FILES: [(&str, &str); 12] = files! {
    "dns-amplification" "syn-flood" "dns-resolver" "dns-server" "web" "quic" "ssh" "source-engine" "minecraft" "voip"
    "wireguard" "ipv6"
};

/// The end of each preset's text.
const TRIAL: &str =
    "Try this file with `shadow = true` as its first line: limiter then counts, and drops nothing.
Prefixes under [lists] are examples: replace them.";

/// List configuration files for services and attacks, or print one
#[derive(Debug, Args)]
pub struct Preset {
    /// Name of a preset, as in web; without it, list all
    #[arg(value_name = "NAME", value_parser = recipe(), hide_possible_values = true)]
    recipe: Option<Recipe>,
    /// Interface that the file is for; several as in eth0,eth1. Default: eth0
    #[arg(short = 'i', long = "interface", value_name = "IFACE", requires = "recipe", value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    #[command(flatten)]
    programs: ForPrograms,
}

/// A preset.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    name: &'static str,
    summary: &'static str,
    text: &'static str,
    file: &'static str,
}

pub fn run(arguments: &Preset) -> anyhow::Result<()> {
    let json = arguments.programs.json;
    arguments.programs.answer();
    let Some(recipe) = &arguments.recipe else {
        return document(json, &files(&recipes().collect::<Vec<_>>(), &[]), list);
    };
    let mut interfaces = arguments.interfaces.clone();
    if interfaces.is_empty() {
        note("this file is for eth0: for another interface write --interface IFACE");
        interfaces.push("eth0".to_owned());
    }
    if json {
        return document(json, &files(&[*recipe], &interfaces), list);
    }
    Ok(write(&preset(recipe, &interfaces))?)
}

/// A parser of a recipe's name. Each command makes it, so it reads the cookbook only for a name.
pub fn recipe() -> impl TypedValueParser<Value = Recipe> {
    let named = |name: String| recipes().find(|recipe| recipe.name == name);
    PossibleValuesParser::new(FILES.map(|(name, _)| name))
        .try_map(move |name| named(name).ok_or("unknown preset"))
}

fn recipes() -> impl Iterator<Item = Recipe> {
    FILES.into_iter().filter_map(|(name, file)| {
        let (_, section) = COOKBOOK.split_once(&format!("\n## `{name}`: "))?;
        let (summary, rest) = section.split_once('\n')?;
        let link = format!("\nFile: [{name}.toml](recipes/{name}.toml)\n");
        let (text, _) = rest.split_once(&link)?;
        Some(Recipe {
            name,
            summary,
            text: text.trim(),
            file,
        })
    })
}

/// The settings of presets together, without the examples on their lists.
pub fn merged(recipes: &[Recipe]) -> Result<Settings, Invalid> {
    let mut merged: Option<Settings> = None;
    for recipe in recipes {
        let read = file::parse(recipe.file, Path::new("."));
        let mut settings = read
            .map_err(|mistakes| Invalid(mistakes.iter().map(ToString::to_string).collect()))?
            .settings;
        settings.lists.allow.clear();
        settings.lists.deny.clear();
        settings.lists.tiers.values_mut().for_each(Prefixes::clear);
        merged = Some(match merged {
            Some(merged) => merged.with_service(recipe.name, settings)?,
            None => settings,
        });
    }
    Ok(merged.unwrap_or_default())
}

fn files(recipes: &[Recipe], interfaces: &[String]) -> PresetFiles {
    let file = |recipe: &Recipe| PresetFile {
        name: recipe.name.to_owned(),
        summary: recipe.summary.to_owned(),
        file: preset(recipe, interfaces),
    };
    PresetFiles {
        presets: recipes.iter().map(file).collect(),
    }
}

fn list() -> String {
    let width = recipes().map(|recipe| recipe.name.len()).max().unwrap_or(0);
    let line = |recipe: Recipe| format!("{:width$}  {}\n", recipe.name, recipe.summary);
    recipes().map(line).collect()
}

/// A configuration file: the recipe's text as comments, and its file for `interfaces`.
fn preset(recipe: &Recipe, interfaces: &[String]) -> String {
    let text = format!(
        "{}: {}\n\n{}\n\n{TRIAL}",
        recipe.name, recipe.summary, recipe.text
    );
    let comments = text.lines().map(|line| format!("# {line}"));
    let file = recipe.file.lines().map(|line| {
        if line.starts_with("interfaces = ") {
            format!("interfaces = {}", toml::Value::from(interfaces.to_vec()))
        } else {
            line.to_owned()
        }
    });
    let lines = comments.chain([String::new()]).chain(file);
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{COOKBOOK, FILES, Path, file, list, preset, recipes};
    use limiter_config::ineffective::USUAL_FRAME;

    #[test]
    fn every_preset_is_a_valid_file_without_warnings() {
        let interfaces = ["eth7".to_owned(), "a\"b".to_owned()];
        for recipe in recipes() {
            let name = recipe.name;
            let text = preset(&recipe, &interfaces);
            let read = file::parse(&text, Path::new("."));
            let read = read.unwrap_or_else(|mistakes| panic!("{name}: {mistakes:?}"));
            assert_eq!(read.interfaces, interfaces, "{name}");
            assert!(!read.settings.limits.is_empty(), "{name}");
            assert!(read.settings.ineffective(USUAL_FRAME).is_empty(), "{name}");
            let warnings = read.settings.table_warnings(USUAL_FRAME).unwrap();
            assert!(warnings.is_empty(), "{name}: {warnings:?}");
        }
    }

    #[test]
    fn every_recipe_of_the_cookbook_is_a_preset_with_plain_text() {
        assert_eq!(recipes().count(), FILES.len());
        assert_eq!(COOKBOOK.matches("\n## `").count(), FILES.len());
        assert_eq!(list().lines().count(), recipes().count());
        for recipe in recipes() {
            assert!(!recipe.text.is_empty(), "{}", recipe.name);
            let is_plain = !recipe.text.contains("](") && !recipe.text.contains("```");
            assert!(is_plain, "{}: no links or blocks", recipe.name);
            let text = preset(&recipe, &["eth0".to_owned()]);
            let mut lines = text.lines().skip_while(|line| line.starts_with('#'));
            assert_eq!(
                lines.nth(1),
                Some("interfaces = [\"eth0\"]"),
                "{}",
                recipe.name
            );
        }
    }

    #[test]
    fn promised_presets_exist() {
        let names: Vec<_> = recipes().map(|recipe| recipe.name).collect();
        let promised = "dns-amplification syn-flood dns-resolver dns-server web quic ssh source-engine minecraft voip \
                        wireguard ipv6";
        assert_eq!(names, promised.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn unknown_name_gets_the_nearest_one_and_the_list() {
        let error = |name: &str| {
            let line = ["limiter", "preset", name, "--interface", "eth0"];
            let error = crate::cli::command().try_get_matches_from(line);
            error.unwrap_err().to_string()
        };
        let wrong = error("dns-resolvr");
        assert!(
            wrong.contains("similar value exists: 'dns-resolver'"),
            "{wrong}"
        );
        assert!(wrong.contains("voip, wireguard, ipv6]"), "{wrong}");
        assert!(!error("zzz").contains("similar"));
    }
}
