//! The manifests for Kubernetes: their containers do what they are for, with their arguments, capabilities and volumes.

use std::{fs, path::PathBuf, process::Command};

use limiter_tests::{
    command::{Outcome, limiter},
    eventually,
    exporter::loopback_up,
    hosts::{CLIENT, Hosts, SERVER},
    need, need_kernel, need_program,
    oci::{Bundle, Process},
};
use serde_json::Value;

use super::image::{Image, arrive, metrics};

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../packaging/kubernetes"
    ))
}

/// A manifest, parsed by another program than limiter has.
fn manifest(name: &str) -> Value {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(folder().join(name));
    let parsed = Outcome::of(name.to_owned(), python.output().unwrap());
    parsed.expect(0);
    serde_json::from_str(&parsed.stdout).unwrap()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The process of a container. Its configuration is in the folder `configuration`.
fn process(container: &Value, configuration: &str) -> Process {
    let security = &container["securityContext"];
    assert_eq!(strings(&security["capabilities"]["drop"]), ["ALL"]);
    let mut process = Process {
        arguments: strings(&container["args"]),
        capabilities: strings(&security["capabilities"]["add"]),
        ..Process::default()
    };
    for argument in &mut process.arguments {
        *argument = argument.replace("$(POD_IP)", &SERVER.to_string());
    }
    for mount in container["volumeMounts"].as_array().unwrap() {
        let path = mount["mountPath"].as_str().unwrap();
        match mount["name"].as_str().unwrap() {
            "bpffs" => process.pins = mount["readOnly"] != true,
            _ => process
                .folders
                .push((configuration.to_owned(), path.to_owned())),
        }
    }
    process
}

#[test]
fn manifests_refer_to_each_other() {
    if !need::python_yaml("package kubernetes") {
        return;
    }
    let (kustomization, daemons) = (manifest("kustomization.yaml"), manifest("daemonset.yaml"));
    for resource in strings(&kustomization["resources"]) {
        assert!(manifest(&resource)["kind"].is_string(), "{resource}");
    }
    let template = &daemons["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    let service = manifest("service.yaml");
    let monitor = manifest("servicemonitor.yaml");
    assert_eq!(&daemons["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(
        monitor["spec"]["selector"]["matchLabels"],
        service["metadata"]["labels"]
    );

    let exporter = &template["spec"]["containers"][0];
    let port = &exporter["ports"][0];
    assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"]);
    assert_eq!(
        monitor["spec"]["endpoints"][0]["port"],
        service["spec"]["ports"][0]["name"]
    );
    let annotated = &template["metadata"]["annotations"]["prometheus.io/port"];
    assert_eq!(
        annotated.as_str().unwrap(),
        port["containerPort"].to_string()
    );
    // With a port behind it, an IPv6 address would need brackets. Without one, the exporter listens on its own port.
    assert_eq!(
        strings(&exporter["args"]),
        ["export", "--listen", "$(POD_IP)"]
    );
    let help = limiter("export --help").stdout;
    let default = format!("127.0.0.1:{}", port["containerPort"]);
    assert!(help.contains(&default), "{help}");

    let generated = &kustomization["configMapGenerator"][0];
    let volumes = template["spec"]["volumes"].as_array().unwrap();
    assert!(
        volumes
            .iter()
            .any(|volume| volume["configMap"]["name"] == generated["name"])
    );
    let file = folder().join(strings(&generated["files"]).remove(0));
    limiter(&["config", "check", file.to_str().unwrap()]).expect(0);
}

const CHANGED: &str = "[[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 3\n";

#[test]
fn containers_of_the_daemon_set_limit_change_and_export() {
    need_kernel!();
    need_program!("crun");
    if !need::packages("package") || !need::python_yaml("package kubernetes") {
        return;
    }
    let (hosts, bundle) = (Hosts::new(), Bundle::new());
    loopback_up(&hosts.server);
    Image::unpack().extract(&bundle.root());
    let pod = &manifest("daemonset.yaml")["spec"]["template"]["spec"];
    let configuration = tempfile::tempdir().unwrap();
    let file = configuration.path().join("limiter.toml");
    fs::copy(folder().join("limiter.toml"), &file).unwrap();
    let process_of = |container: &Value| process(container, configuration.path().to_str().unwrap());

    let attach = process_of(&pod["initContainers"][0]);
    bundle.run(&hosts.server, "attach", &attach).expect(0);
    assert_eq!(arrive(&hosts, CLIENT), 10, "shadow");
    // The next pod has another ConfigMap. Its init container finds limiter attached.
    fs::write(&file, CHANGED).unwrap();
    bundle.run(&hosts.server, "attach", &attach).expect(0);
    assert_eq!(arrive(&hosts, "192.0.2.3".parse().unwrap()), 3);
    bundle.run(&hosts.server, "attach", &attach).expect(0);

    let exporter = bundle.start(&hosts.server, "export", &process_of(&pod["containers"][0]));
    let wanted = "limiter_interface_packets_total{interface=\"eth0\",verdict=\"drop\"} 7";
    eventually("the exporter counts the dropped packets", || {
        metrics(&hosts.server, SERVER).contains(wanted)
    });
    drop(exporter);

    // docs/containers.md: before the DaemonSet is deleted.
    let detach = Process {
        arguments: ["detach", "eth0"].map(str::to_owned).to_vec(),
        ..attach
    };
    bundle.run(&hosts.server, "attach", &detach).expect(0);
    assert_eq!(arrive(&hosts, "192.0.2.3".parse().unwrap()), 10);
}
