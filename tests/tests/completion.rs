//! Tab offers interfaces, limits, lists, bans and presets in bash, zsh and fish, and files only where files belong.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use limiter_tests::{command::copy_binary, files::Folder, hosts::Hosts, need, need_kernel};

const FILE: &str = r#"
[lists]
partners = ["198.51.100.0/24"]
[[limit]]
name = "ssh"
match = { destination_port = 22 }
rate = "5/m"
[[limit]]
name = "web"
match = { destination_port = 443 }
rate = "1k/s"
"#;

/// The beginnings of command lines, words that Tab must offer behind them (-: none), and words that it
/// must not.
const LINES: &str = r"
limiter sta => status => attach
limiter top  => eth0 lo => nothing.txt
limiter top -i  => eth0 lo => nothing.txt
limiter set eth0 --limit  => ssh web => nothing.txt
limiter limit  => eth0 => nothing.txt
limiter limit eth0 s => ssh => web
limiter tier list eth0  => partners => nothing.txt
limiter bans --origin  => hand scanner => nothing.txt
limiter unban eth0 203 => 203.0.113.7 => nothing.txt
limiter deny remove eth0  => 192.0.2.66 => 198.51.100.0/24
limiter attach eth0 --preset w => web wireguard => ssh
limiter watch --reason con => contended => limit
limiter attach eth0 --rate  => - => nothing.txt
limiter check eth0 1 => - => nothing.txt
limiter attach --config n => nothing.txt => eth0
limiter man top => top => nothing.txt
";

/// Calls the function that a real bash calls for Tab, with the words as bash divides them.
const BASH: &str = r#"
source <(limiter completions bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<< "${1//:/ : }"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
eval "$(complete -p limiter | sed 's/.*-F \([^ ]*\) .*/\1/') limiter '${COMP_WORDS[COMP_CWORD]}' '' 2> /dev/null"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Asks fish as its command line does.
const FISH: &str =
    "limiter completions fish | source; complete -C $argv[1] | string split -f 1 \\t";

/// Types the line and Tab in a terminal of zsh, and then a key that prints the end.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; LISTMAX=1000; setopt no_list_ambiguous; autoload -U compinit; compinit -u -D
source <(limiter completions zsh)
finish() { zle -I; print @e""nd@ }; zle -N finish; bindkey "^X" finish; print rea""dy'
zpty -r -m shell text '*ready*'
zpty -w -n shell "$1"$'\t\x18'
zpty -r -m shell text '*@end@*'
print -r -- $text
zpty -d shell
"#;

/// The words that a shell of root offers behind the beginning of a line.
fn offered(hosts: &Hosts, folder: &Folder, shell: &str, line: &str) -> String {
    offered_to(0, hosts, folder, shell, line)
}

fn offered_to(user: u32, hosts: &Hosts, folder: &Folder, shell: &str, line: &str) -> String {
    let (script, option) = match shell {
        "bash" => (BASH, "-c"),
        "fish" => (FISH, "-c"),
        _ => (ZSH, "-fc"),
    };
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={user}"))
        .args(["--clear-groups", "timeout", "60"]);
    command.args([shell, option, script]);
    if shell != "fish" {
        command.arg(shell);
    }
    command.arg(line).current_dir(folder.path(""));
    let path = format!("{}:{}", folder.path(""), std::env::var("PATH").unwrap());
    command
        .env("PATH", path)
        .env("TERM", "dumb")
        .env("HOME", folder.path(""));
    let output = hosts.server.namespace.run(|| command.output()).unwrap();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

fn host_with_everything(folder: &Folder) -> Hosts {
    let hosts = Hosts::new();
    copy_binary(folder.path("limiter"));
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    folder.write("nothing.txt", "");
    let file = folder.write("config.toml", FILE);
    hosts.run(&["attach", "eth0", "--config", &file]);
    hosts.run("ban eth0 203.0.113.7 2001:db8:bad::7");
    hosts.run("ban eth0 203.0.113.8 --origin scanner");
    hosts.run("deny add eth0 192.0.2.66");
    hosts
}

fn check(shell: &str) {
    let folder = Folder::new();
    let hosts = host_with_everything(&folder);
    for line in LINES.lines().filter(|line| !line.is_empty()) {
        let [line, wanted, unwanted] = line.splitn(3, " => ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let found = offered(&hosts, &folder, shell, line);
        let behind = found.replace(line, "");
        let is_offered = |word: &str| behind.split_whitespace().any(|found| found == word);
        for word in wanted.split_whitespace().filter(|word| *word != "-") {
            let whole = format!("{}{word}", &line[..=line.rfind(' ').unwrap()]);
            assert!(
                is_offered(word) || found.contains(&whole),
                "{shell}: '{line}': {word}: {found}"
            );
        }
        for word in unwanted.split_whitespace() {
            assert!(!is_offered(word), "{shell}: '{line}': {word}: {found}");
        }
    }
}

#[test]
fn bash_completes_what_this_host_has() {
    need_kernel!();
    check("bash");
    let folder = Folder::new();
    let hosts = host_with_everything(&folder);
    let banned = offered(&hosts, &folder, "bash", "limiter unban eth0 2001:db8:b");
    assert_eq!(
        banned.trim(),
        "bad::7",
        "bash keeps what is in front of the colon"
    );
}

#[test]
fn fish_completes_what_this_host_has() {
    need_kernel!();
    if need::program("completion", "fish") {
        check("fish");
    }
}

#[test]
fn zsh_completes_what_this_host_has() {
    need_kernel!();
    if need::program("completion", "zsh") {
        check("zsh");
    }
}

/// It asks for nothing, and prints no error.
#[test]
fn user_without_rights_gets_what_anybody_may_read() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = host_with_everything(&folder);
    let found = |line| offered_to(65_533, &hosts, &folder, "bash", line);
    let interfaces = found("limiter status ");
    assert!(
        interfaces.lines().any(|name| name == "eth0"),
        "{interfaces}"
    );
    assert_eq!(found("limiter set eth0 --limit ").trim(), "");
    assert_eq!(found("limiter unban eth0 20").trim(), "");
    assert!(found("limiter attach --preset w").contains("wireguard"));
}

#[test]
fn attached_interfaces_come_first() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = host_with_everything(&folder);
    let found = offered(&hosts, &folder, "bash", "limiter status ");
    assert_eq!(found.lines().next(), Some("eth0"), "{found}");
}
