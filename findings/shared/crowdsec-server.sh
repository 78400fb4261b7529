# Starts the local API of CrowdSec, of the Debian package "$package", with an empty database in a temporary folder, for the scripts that source it.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq "$package"
dpkg-deb -x crowdsec_*.deb root
port=$((20000 + RANDOM % 10000))
echo '{}' >index.json
echo 'simulation: false' >simulation.yaml
printf "name: none\nfilters: ['false']\n" >profiles.yaml
echo 'share_manual_decisions: false' >console.yaml
touch acquis.yaml credentials.yaml
cat >config.yaml <<C
common: {daemonize: false, log_media: stdout, working_dir: $folder}
config_paths: {config_dir: $folder, data_dir: $folder, simulation_path: $folder/simulation.yaml, hub_dir: $folder, index_path: $folder/index.json}
crowdsec_service: {acquisition_path: $folder/acquis.yaml}
db_config: {type: sqlite, db_path: $folder/crowdsec.db, use_wal: true}
api:
  client: {credentials_path: $folder/credentials.yaml}
  server: {listen_uri: '127.0.0.1:$port', profiles_path: $folder/profiles.yaml, console_path: $folder/console.yaml}
prometheus: {enabled: false}
C
cscli() { root/usr/bin/cscli -c config.yaml "$@"; }
cscli version >version 2>&1
head -1 version
grep -q 'v1\.4\.6' version
cscli machines add here --password secret --force -u "http://127.0.0.1:$port" -f credentials.yaml >/dev/null 2>&1
cscli bouncers add bouncer -k a-key >/dev/null 2>&1
root/usr/bin/crowdsec -c config.yaml -no-cs >log 2>&1 &
server=$!
decisions() {
  curl -sS -H 'X-Api-Key: a-key' "http://127.0.0.1:$port/v1/decisions" |
    python3 -c 'import json, sys; print(*((d["scope"], d["value"]) for d in json.load(sys.stdin) or []))'
}
for _ in $(seq 50); do decisions >/dev/null 2>&1 && break || sleep 0.2; done
