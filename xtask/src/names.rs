//! Finds variables whose names are mere prepositions and pronouns.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use syn::{
    Expr, Macro, Pat, PatIdent, Signature, Token,
    parse::Parser,
    punctuated::Punctuated,
    visit::{self, Visit},
};

use crate::paths;

/// Names that say nothing about a value.
const REFUSED: [&str; 9] = ["of", "it", "by", "at", "one", "with", "to", "on", "what"];

/// Folders of crates, each with the most variables of such names that it may have. The number only falls.
const MOST: [(&str, usize); 12] = [
    ("fuzz", 0),
    ("limiter-common", 0),
    ("limiter-config", 0),
    ("limiter-ebpf", 0),
    ("limiter-feed", 0),
    ("limiter-fleet", 0),
    ("limiter-kernel", 0),
    ("limiter-lists", 0),
    ("limiter-specialise", 0),
    ("limiter-user", 0),
    ("tests", 0),
    ("xtask", 0),
];

/// Checks all crates.
pub fn check() -> Result<()> {
    let mut wrong = String::new();
    for (name, most) in MOST {
        let found = in_folder(name)?;
        if found.len() > most {
            let (number, lines) = (found.len(), found.join("\n"));
            write!(
                wrong,
                "\n{name}, {number} variables, at most {most}:\n{lines}"
            )?;
        }
    }
    if !wrong.is_empty() {
        bail!("variables whose names say nothing ({REFUSED:?}):{wrong}");
    }
    Ok(())
}

/// The variables in a folder, as `FILE, fn NAME: NAME`.
fn in_folder(name: &str) -> Result<Vec<String>> {
    let root = paths::root();
    let mut found = Vec::new();
    for (path, text) in paths::sources_in(&root.join(name))? {
        let file = path.strip_prefix(&root)?.display().to_string();
        let variables = in_text(&text).with_context(|| format!("parsing {file}"))?;
        let lines = variables.iter();
        found.extend(lines.map(|(function, name)| format!("{file}, fn {function}: {name}")));
    }
    Ok(found)
}

/// The variables in a text, each behind the name of its function. Lines are unknown: with the feature that knows them,
/// `proc-macro2` and `syn` would be built twice.
fn in_text(text: &str) -> Result<Vec<(String, String)>> {
    let mut found = Found::default();
    found.visit_file(&syn::parse_file(text)?);
    Ok(found.variables)
}

/// Variables with refused names.
#[derive(Default)]
struct Found {
    function: String,
    variables: Vec<(String, String)>,
}

impl<'a> Visit<'a> for Found {
    fn visit_signature(&mut self, signature: &'a Signature) {
        self.function = signature.ident.to_string();
        visit::visit_signature(self, signature);
    }

    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        let name = pattern.ident.to_string();
        if REFUSED.contains(&&*name) {
            self.variables.push((self.function.clone(), name));
        }
        visit::visit_pat_ident(self, pattern);
    }

    /// Arguments of macros are tokens: looks into those that are expressions, or a value and a pattern.
    fn visit_macro(&mut self, call: &'a Macro) {
        let expressions = Punctuated::<Expr, Token![,]>::parse_terminated;
        let matched = |input: syn::parse::ParseStream| {
            let value: Expr = input.parse()?;
            input.parse::<Token![,]>()?;
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            let guard = input.parse::<Option<Token![if]>>()?;
            let guard: Option<Expr> = guard.map(|_| input.parse()).transpose()?;
            input.parse::<Option<Token![,]>>()?;
            Ok((value, pattern, guard))
        };
        let tokens = || call.tokens.clone();
        // The arguments are parsed here, because their parts do not live as long as the file.
        let mut inner = Found {
            function: self.function.clone(),
            ..Found::default()
        };
        if let Ok(arguments) = expressions.parse2(tokens()) {
            arguments.iter().for_each(|part| inner.visit_expr(part));
        } else if let Ok((value, pattern, guard)) = matched.parse2(tokens()) {
            inner.visit_expr(&value);
            inner.visit_pat(&pattern);
            guard.iter().for_each(|guard| inner.visit_expr(guard));
        }
        self.variables.append(&mut inner.variables);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_every_kind_are_found() {
        let text = "fn f(of: u8) {\n let (a, it) = b;\n if let Some(by) = c {}\n for at in d {}\n \
            e.map(|one| one);\n match g { S { with, .. } => 1, to @ 0..5 => 2, on => 3 }\n \
            assert!(h.iter().all(|what| what), \"{}\", i);\n assert!(matches!(j, K(ref of) if l));\n}";
        let found = in_text(text).unwrap();
        let names: Vec<_> = found.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "of", "it", "by", "at", "one", "with", "to", "on", "what", "of"
            ]
        );
        assert!(found.iter().all(|(function, _)| function == "f"));
    }

    #[test]
    fn functions_fields_and_whole_words_are_no_variables() {
        let text = "struct A { at: u8, of: u8 } fn on(older: u8) { A { at: 1, of: older }; a.by(); with::x(\"it\") }";
        assert_eq!(in_text(text).unwrap(), []);
    }

    #[test]
    fn no_crate_has_more_such_variables_than_it_may_have() -> Result<()> {
        check()
    }
}
