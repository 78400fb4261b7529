//! Settings of a feed from CrowdSec: where it is asked, as whom, and for which decisions.

use std::path::PathBuf;

use limiter_config::reader::Section;

use super::{Settings, is_url};

/// Scopes of decisions that CrowdSec itself makes.
const SCOPES: [&str; 4] = ["ip", "range", "country", "as"];

/// Origins of decisions that CrowdSec itself knows.
const ORIGINS: [&str; 7] = [
    "crowdsec",
    "cscli",
    "cscli-import",
    "console",
    "lists",
    "CAPI",
    "remediation_sync",
];

impl Settings {
    /// The path of CrowdSec's Unix socket, if that is the source.
    pub fn socket(&self) -> Option<&str> {
        let server = self.crowdsec.as_deref();
        server.filter(|server| server.starts_with('/'))
    }

    /// The keys that are set, and for CrowdSec alone.
    pub(super) fn of_crowdsec(&self) -> impl Iterator<Item = &'static str> {
        let files = self.files().map(|(key, file)| (key, file.is_some()));
        let words = self.words().map(|(key, words)| (key, !words.is_empty()));
        let all = files.into_iter().chain(words);
        all.filter(|(_, is_set)| *is_set).map(|(key, _)| key)
    }

    fn files(&self) -> [(&'static str, &Option<PathBuf>); 4] {
        [
            ("key-file", &self.key_file),
            ("certificate-file", &self.certificate_file),
            ("certificate-key-file", &self.certificate_key_file),
            ("authority-file", &self.authority_file),
        ]
    }

    /// The choices of decisions.
    fn words(&self) -> [(&'static str, &[String]); 4] {
        [
            ("origins", &self.origins),
            ("scopes", &self.scopes),
            ("scenarios-containing", &self.scenarios_containing),
            ("scenarios-not-containing", &self.scenarios_not_containing),
        ]
    }

    /// Reports contradictions.
    pub(super) fn check_crowdsec(&self, server: &str, section: &mut Section) {
        if !is_url(server) && self.socket().is_none() {
            let why = format!(
                "'{server}' is neither a URL nor the full path of a socket: write one as in http://127.0.0.1:8080"
            );
            section.refuse("crowdsec", &why);
        }
        let is_secure = server.starts_with("https:");
        let [key, certificate, certificate_key, authority] =
            self.files().map(|(_, file)| file.is_some());
        let half = match certificate {
            true => "certificate-file",
            false => "certificate-key-file",
        };
        let for_lists = "this is for lists, and the source is crowdsec: remove it";
        for (is_wrong, key, why) in [
            (self.format.is_some(), "format", for_lists),
            (!self.field.is_empty(), "field", for_lists),
            (
                certificate != certificate_key,
                half,
                "certificate-file and certificate-key-file belong together: write both",
            ),
            (
                key && certificate,
                "key-file",
                "CrowdSec takes either a key or a certificate: remove key-file, or certificate-file and certificate-key-file",
            ),
            (
                !key && !certificate && !certificate_key,
                "crowdsec",
                "key-file is missing: write the output of `cscli bouncers add limiter -o raw` to a file, and name it; or write certificate-file and certificate-key-file",
            ),
            (
                certificate && !is_secure,
                "certificate-file",
                "it needs TLS: write crowdsec = \"https://…\", or key-file instead",
            ),
            (
                authority && !is_secure,
                "authority-file",
                "it needs TLS: write crowdsec = \"https://…\", or remove it",
            ),
        ] {
            if is_wrong {
                section.refuse(key, why);
            }
        }
        self.check_words(section);
    }

    fn check_words(&self, section: &mut Section) {
        for (key, words) in self.words() {
            for word in words {
                // CrowdSec divides the words at commas.
                let why = if word.trim().is_empty() || word.contains(',') {
                    Some(format!(
                        "'{word}' is no word: write one in each pair of quotes, as in {key} = [\"a\", \"b\"]"
                    ))
                } else if key == "scopes" {
                    wrong_scope(word)
                } else if key == "origins" {
                    wrong_origin(word)
                } else {
                    None
                };
                if let Some(why) = why {
                    section.refuse(key, &why);
                }
            }
        }
    }

    /// Returns true if only decisions of some origins or scenarios are asked for.
    ///
    /// CrowdSec chooses the longest of several decisions about one value before it looks at origins and scenarios: a
    /// local decision would be missing while a list has a longer one. So it is told not to choose.
    pub fn is_choosy(&self) -> bool {
        let [origins, _, scenarios @ ..] = self.words();
        !origins.1.is_empty() || scenarios.iter().any(|(_, words)| !words.is_empty())
    }

    /// The parameters of a question for all decisions, or for changes.
    pub fn question(&self, is_all: bool) -> Vec<(String, String)> {
        let mut all = vec![("startup".to_owned(), is_all.to_string())];
        if self.is_choosy() {
            all.push(("dedup".to_owned(), "false".to_owned()));
        }
        let scopes = SCOPES.map(str::to_owned);
        for (name, words) in self.words() {
            let words = match name {
                "scopes" if words.is_empty() => &scopes,
                _ => words,
            };
            if !words.is_empty() {
                all.push((name.replace('-', "_"), words.join(",")));
            }
        }
        all
    }
}

fn wrong_scope(scope: &str) -> Option<String> {
    let is_known = SCOPES.contains(&scope.to_lowercase().as_str());
    (!is_known).then(|| {
        format!(
            "'{scope}' is not a scope: write some of {}",
            SCOPES.join(", ")
        )
    })
}

fn wrong_origin(origin: &str) -> Option<String> {
    if let Some(list) = origin.strip_prefix("lists:") {
        return Some(format!(
            "'{origin}' is not an origin, and that of all lists is lists: write origins = \"lists\" and scenarios-containing = \"{list}\""
        ));
    }
    let is_meant = |known: &&&str| known.eq_ignore_ascii_case(origin) && **known != origin;
    let meant = ORIGINS.iter().find(is_meant)?;
    Some(format!("'{origin}' is not an origin: write \"{meant}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        let read = Settings::parse(&text.replace("; ", "\n"));
        read.map_err(|mistakes| {
            let lines = mistakes.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>().join("\n")
        })
    }

    #[test]
    fn question_has_the_choice_of_the_operator() {
        let line = |text: &str| {
            let settings = parse(&format!("crowdsec = 'http://a'; key-file = '/k'; {text}"));
            let question = settings.unwrap().question(false).into_iter();
            let question = question.map(|(name, value)| format!("{name}={value}"));
            question.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(""), "startup=false scopes=ip,range,country,as");
        assert_eq!(line("scopes = ['Ip']"), "startup=false scopes=Ip");
        assert_eq!(
            line("origins = ['crowdsec', 'CAPI']; scenarios-not-containing = ['http']"),
            "startup=false dedup=false origins=crowdsec,CAPI scopes=ip,range,country,as scenarios_not_containing=http"
        );
        assert_eq!(
            line("scenarios-containing = ['ssh']; scopes = ['range']"),
            "startup=false dedup=false scopes=range scenarios_containing=ssh"
        );
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("crowdsec = 'a'; key-file = '/k'", "neither a URL nor"),
            ("crowdsec = 'http://a'", "cscli bouncers add"),
            (
                "crowdsec = 'http://a'; key-file = '/k'; field = 'ip'",
                "line 3: field: this is for lists",
            ),
            (
                "crowdsec = 'https://a'; certificate-file = '/c'",
                "belong together",
            ),
            (
                "crowdsec = 'https://a'; key-file = '/k'; certificate-file = '/c'; certificate-key-file = '/d'",
                "either a key or a certificate",
            ),
            (
                "crowdsec = 'http://a'; certificate-file = '/c'; certificate-key-file = '/d'",
                "certificate-file: it needs TLS",
            ),
            (
                "crowdsec = '/run/a'; certificate-file = '/c'; certificate-key-file = '/d'",
                "or key-file instead",
            ),
            (
                "crowdsec = 'http://a'; key-file = '/k'; authority-file = '/c'",
                "authority-file: it needs TLS",
            ),
            (
                "crowdsec = 'http://a'; key-file = '/k'; origins = ['crowdsec,cscli']",
                "one in each pair of quotes",
            ),
            (
                "crowdsec = 'http://a'; key-file = '/k'; scenarios-containing = ['']",
                "one in each pair of quotes",
            ),
            (
                "crowdsec = 'http://a'; key-file = '/k'; origins = ['capi']",
                "write \"CAPI\"",
            ),
            (
                "crowdsec = 'http://a'; key-file = '/k'; origins = ['lists:tor']",
                "scenarios-containing = \"tor\"",
            ),
            (
                "crowdsec = 'http://a'; key-file = '/k'; scopes = ['ips']",
                "ip, range, country, as",
            ),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says) && !why.contains('\n'), "{text}: {why}");
        }
        for text in [
            "crowdsec = 'https://a'; certificate-file = '/c'; certificate-key-file = '/d'; authority-file = '/e'",
            "crowdsec = '/run/crowdsec.sock'; key-file = '/k'",
            "crowdsec = 'http://a'; key-file = '/k'; origins = ['of-my-own']",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }
}
