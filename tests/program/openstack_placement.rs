//! `osc-placement`, the `openstack` commands for Placement, with `berth placement serve`, unchanged: each command, at
//! each microversion that changes it, prints the same as with OpenStack's own Placement.

use std::collections::{BTreeMap, BTreeSet};

use berth_tests::berth::BerthHome;
use berth_tests::peer::{
    AcceleratorPlugin, CommandOutput, OpenStackShell, PlacementSettings, RealPlacement,
};
use serde_json::{Value, json};

use crate::program::hypervisor::PATIENCE;

/// What an operator does, a command a line: the microversion (`-`: what client and service agree on), whether it is done or
/// refused, and its words. Capitals stand for the uuids below.
const STORY: &str = "
    - done resource class create CUSTOM_GOLD
    - refused resource class create CUSTOM_GOLD
    - refused resource class create GOLD
    - done resource class set CUSTOM_SILVER
    - done resource class set CUSTOM_SILVER
    - done resource class show CUSTOM_GOLD
    - refused resource class show CUSTOM_LEAD
    - done resource class list
    - done resource class delete CUSTOM_SILVER
    - refused resource class delete CUSTOM_SILVER
    - refused resource class delete VCPU
    1.1 refused resource class list
    1.6 refused resource class set CUSTOM_SILVER

    - done trait create CUSTOM_FAST
    - done trait create CUSTOM_FAST
    - refused trait create FAST
    - done trait list
    - done trait list --name in:CUSTOM_FAST,HW_CPU_X86_AVX2
    - done trait list --name startswith:CUSTOM_
    - done trait show CUSTOM_FAST
    - refused trait show CUSTOM_SLOW
    - done trait create CUSTOM_OLD
    - done trait delete CUSTOM_OLD
    - refused trait delete CUSTOM_OLD
    - refused trait delete HW_CPU_X86_AVX2

    - done resource provider create named-by-the-service
    - done resource provider create host --uuid HOST
    - refused resource provider create host
    - refused resource provider create other --uuid HOST
    - done resource provider create gpu --uuid GPU --parent-provider HOST
    - refused resource provider create orphan --uuid ORPHAN --parent-provider NOBODY
    1.13 done resource provider create flat --uuid FLAT
    1.0 done resource provider show FLAT
    - done resource provider list
    1.0 done resource provider list
    - done resource provider list --name host
    - done resource provider list --uuid GPU
    - done resource provider list --in-tree GPU
    1.13 refused resource provider list --in-tree GPU
    - done resource provider show HOST
    - refused resource provider show NOBODY
    - done resource provider set FLAT --name flat-2
    - done resource provider set FLAT --name flat-2 --parent-provider HOST
    - refused resource provider set FLAT --name flat-2 --parent-provider GPU
    - refused resource provider set FLAT --name host
    - refused resource provider set NOBODY --name x

    - done resource provider inventory set HOST --resource VCPU=16 --resource MEMORY_MB=4096 --resource VCPU:allocation_ratio=4.0
    - refused resource provider inventory set HOST --resource NOTHING=1
    - refused resource provider inventory set HOST --resource VCPU=0
    - refused resource provider inventory set HOST --resource VCPU
    - done resource provider inventory set HOST --amend --resource DISK_GB=100 --resource DISK_GB:reserved=10
    - done resource provider inventory set HOST --amend --dry-run --resource DISK_GB=200
    - done resource provider inventory list HOST
    - done resource provider inventory show HOST VCPU
    - refused resource provider inventory show HOST VGPU
    - done resource provider inventory class set HOST VCPU --total 8 --reserved 1 --max_unit 4 --min_unit 1 --step_size 1
    - refused resource provider inventory class set HOST VGPU --total 8
    - refused resource provider inventory class set HOST VCPU --total 8 --min_unit 0
    - done resource provider inventory set GPU --resource CUSTOM_GOLD=4
    - done resource provider inventory delete HOST --resource-class DISK_GB
    - refused resource provider inventory delete HOST --resource-class DISK_GB
    1.4 refused resource provider inventory delete HOST
    - done resource provider inventory set FLAT --resource VGPU=2
    - done resource provider inventory delete FLAT
    - done resource provider inventory list FLAT

    - done resource provider aggregate list HOST
    - done resource provider aggregate set HOST --aggregate AGG1 --aggregate AGG2 --generation 4
    - refused resource provider aggregate set HOST --aggregate AGG1 --generation 0
    1.18 done resource provider aggregate set FLAT --aggregate AGG1
    1.1 done resource provider aggregate list FLAT
    - refused resource provider aggregate list NOBODY
    1.0 refused resource provider aggregate list HOST
    - refused resource provider inventory set AGG1 --aggregate --amend --resource VCPU:reserved=2
    - done resource provider inventory set AGG1 --aggregate --amend --resource MEMORY_MB=2048
    - done resource provider list --member-of AGG1
    - done resource provider list --member-of AGG1,AGG2
    1.3 done resource provider list --aggregate-uuid AGG2

    - done resource provider trait set HOST --trait HW_CPU_X86_AVX2 --trait CUSTOM_FAST
    - refused resource provider trait set HOST --trait CUSTOM_NEW
    - done resource provider trait list HOST
    - done trait list --associated
    - done resource provider list --required CUSTOM_FAST
    - done resource provider list --required CUSTOM_FAST --forbidden HW_CPU_X86_AVX2
    1.39 done resource provider list --required CUSTOM_FAST,HW_CPU_X86_SSE
    1.38 refused resource provider list --required CUSTOM_FAST,HW_CPU_X86_SSE
    1.17 refused resource provider list --required CUSTOM_FAST
    - refused trait delete CUSTOM_FAST
    - done resource provider trait set GPU --trait CUSTOM_FAST
    - done resource provider trait delete GPU
    - done resource provider trait list GPU

    - done resource provider list --resource VCPU=4 --resource MEMORY_MB=1024
    - done resource provider list --resource VCPU=400
    1.3 refused resource provider list --resource VCPU=4
    - done allocation candidate list --resource VCPU=2
    - done allocation candidate list --resource VCPU=2 --resource CUSTOM_GOLD=1 --limit 5
    - done allocation candidate list --resource VCPU=2 --required CUSTOM_FAST
    - done allocation candidate list --resource VCPU=2 --forbidden CUSTOM_FAST
    - done allocation candidate list --resource VCPU=2 --member-of AGG1
    1.39 done allocation candidate list --resource VCPU=2 --required CUSTOM_FAST,HW_CPU_X86_SSE
    - done allocation candidate list --group 1 --resource VCPU=1 --group 2 --resource CUSTOM_GOLD=1 --group-policy none
    - done allocation candidate list --group 1 --resource VCPU=1 --group 2 --resource VCPU=1
    - refused allocation candidate list --resource CUSTOM_TIN=1
    1.10 done allocation candidate list --resource MEMORY_MB=256
    1.12 done allocation candidate list --resource MEMORY_MB=256
    1.9 refused allocation candidate list --resource VCPU=2

    - done resource provider allocation set CONSUMER1 --allocation rp=HOST,VCPU=2 --allocation rp=HOST,MEMORY_MB=512 --allocation rp=GPU,CUSTOM_GOLD=1 --project-id P1 --user-id U1
    1.38 done resource provider allocation set CONSUMER2 --allocation rp=HOST,VCPU=1 --project-id P1 --user-id U2 --consumer-type INSTANCE
    1.11 done resource provider allocation set CONSUMER3 --allocation rp=HOST,MEMORY_MB=256 --project-id P2 --user-id U1
    1.0 done resource provider allocation set CONSUMER4 --allocation rp=HOST,MEMORY_MB=256
    - refused resource provider allocation set CONSUMER1 --allocation rp=HOST,VCPU=4 --project-id P1 --user-id U1 --allocation rp=NOBODY,VCPU=1
    - refused resource provider allocation set CONSUMER5 --allocation rp=HOST,VCPU=400 --project-id P1 --user-id U1
    - refused resource provider allocation set CONSUMER5 --project-id P1 --user-id U1
    - done resource provider allocation show CONSUMER1
    1.38 done resource provider allocation show CONSUMER2
    1.38 done resource provider allocation show CONSUMER1
    1.0 done resource provider allocation show CONSUMER4
    - done resource provider allocation show NOBODY
    - done resource provider show HOST --allocations
    1.38 done resource provider show HOST --allocations
    - done resource provider usage show HOST
    - refused resource provider usage show NOBODY
    - done resource usage show P1
    - done resource usage show P1 --user-id U2
    - done resource usage show NOBODY
    1.8 refused resource usage show P1
    - refused resource provider inventory delete GPU
    - refused resource provider inventory set GPU --resource VGPU=1
    - refused resource provider delete GPU
    - done resource provider allocation unset CONSUMER1 --provider GPU
    1.12 done resource provider allocation unset CONSUMER1 --resource-class MEMORY_MB
    1.11 refused resource provider allocation unset CONSUMER1
    - done resource provider allocation unset CONSUMER1 --provider NOBODY
    - done resource provider allocation unset CONSUMER1
    - refused resource provider allocation delete CONSUMER1
    - done resource provider allocation delete CONSUMER2
    - done resource provider allocation delete CONSUMER3
    - done resource provider allocation delete CONSUMER4
    - done resource provider usage show HOST

    - refused resource provider delete HOST
    - done resource provider delete GPU
    - refused resource provider delete GPU
    - done resource class delete CUSTOM_GOLD
    - done resource provider trait delete HOST
    - done trait delete CUSTOM_FAST
    - done resource provider delete FLAT
    - done resource provider delete HOST
    - done resource provider list
";

const UUIDS: &[(&str, &str)] = &[
    ("HOST", "11111111-0000-4000-8000-000000000001"),
    ("GPU", "11111111-0000-4000-8000-000000000002"),
    ("FLAT", "11111111-0000-4000-8000-000000000003"),
    ("ORPHAN", "11111111-0000-4000-8000-000000000004"),
    ("NOBODY", "11111111-0000-4000-8000-00000000000f"),
    ("AGG1", "22222222-0000-4000-8000-000000000001"),
    ("AGG2", "22222222-0000-4000-8000-000000000002"),
    ("CONSUMER1", "33333333-0000-4000-8000-000000000001"),
    ("CONSUMER2", "33333333-0000-4000-8000-000000000002"),
    ("CONSUMER3", "33333333-0000-4000-8000-000000000003"),
    ("CONSUMER4", "33333333-0000-4000-8000-000000000004"),
    ("CONSUMER5", "33333333-0000-4000-8000-000000000005"),
    ("P1", "44444444-0000-4000-8000-000000000001"),
    ("P2", "44444444-0000-4000-8000-000000000002"),
    ("U1", "55555555-0000-4000-8000-000000000001"),
    ("U2", "55555555-0000-4000-8000-000000000002"),
];

/// Commands that print nothing when they are done, and take no `-f`.
const SILENT: &[&str] = &[
    "delete",
    "create CUSTOM_",
    "class set CUSTOM_",
    "trait create",
];

/// A shell with two clouds.
struct Operator {
    shell: OpenStackShell,
}

impl Operator {
    fn run(&mut self, cloud: &str, version: &str, words: &[String]) -> CommandOutput {
        let mut all = vec!["--os-cloud", cloud];
        if version != "-" {
            all.extend(["--os-placement-api-version", version]);
        }
        all.extend(words.iter().map(String::as_str));
        self.shell.run(&all).expect("the shell answers")
    }
}

fn with_uuids(word: &str) -> String {
    // CONSUMER1 is not the beginning of another name.
    let known = UUIDS.iter();
    known.fold(word.to_owned(), |word, (name, uuid)| {
        let parts = word.split_inclusive([',', '=']);
        let replaced = parts.map(|part| {
            let bare = part.trim_end_matches([',', '=']);
            match bare == *name {
                true => part.replacen(bare, uuid, 1),
                false => part.to_owned(),
            }
        });
        replaced.collect()
    })
}

/// What is the same in both: without the order of what has none, and without the uuids that each service chose.
fn comparable(output: &str, chosen: &[String]) -> Value {
    let mut text = output.to_owned();
    for (at, uuid) in chosen.iter().enumerate() {
        text = text.replace(uuid, &format!("CHOSEN{at}"));
    }
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return json!(text);
    };
    sorted(value)
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(fields) => {
            // Candidates are numbered as they come.
            let fields = fields.into_iter().filter(|(name, _)| name != "#");
            Value::Object(fields.map(|(name, value)| (name, sorted(value))).collect())
        }
        // A column of several resources is a text.
        Value::String(text) if text.contains(',') => {
            let mut parts: Vec<&str> = text.split(',').collect();
            parts.sort_unstable();
            json!(parts.join(","))
        }
        other => other,
    }
}

/// All commands of the plugin.
fn commands(operator: &mut Operator) -> BTreeSet<String> {
    let words = ["command", "list", "--group", "openstack.placement.v1"];
    let words: Vec<String> = [&words[..], &["-f", "json"]]
        .concat()
        .iter()
        .map(ToString::to_string)
        .collect();
    let output = operator.run("ours", "-", &words);
    assert_eq!(output.code, 0, "{}", output.err);
    let listed = output.json();
    let groups = listed.as_array().into_iter().flatten();
    let names = groups.flat_map(|group| group["Commands"].as_array().cloned().unwrap_or_default());
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

#[test]
fn every_command_prints_the_same_as_with_openstacks_own_placement() {
    let mut home = BerthHome::new().expect("a home");
    let text = "state_path = \"@HOME@/state\"\n[placement_service]\nlisten = \"127.0.0.1:0\"\n";
    home.configure(text).expect("a configuration");
    let config = home.config_file().display().to_string();
    let berth = home.start(["--config", &config, "placement", "serve"]);
    let mut berth = berth.expect("it starts");
    let ours = berth
        .wait_for_line(PATIENCE, "Placement at ")
        .expect("it serves");
    let real = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let cloud = |url: &str| {
        json!({"auth_type": "admin_token", "auth": {"endpoint": url, "token": "admin"},
            "placement_endpoint_override": url})
    };
    let clouds = json!({"ours": cloud(&ours), "theirs": cloud(&real.url())});
    let shell = OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &clouds);
    let mut operator = Operator {
        shell: shell.expect("the shell starts"),
    };
    let mut left = commands(&mut operator);
    let mut differences = Vec::new();
    let mut chosen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in STORY.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let (version, outcome) = (
            words.next().unwrap_or("-"),
            words.next().unwrap_or_default(),
        );
        let words: Vec<String> = words.map(with_uuids).collect();
        let text = words.join(" ");
        left.retain(|command| !text.starts_with(command.as_str()));
        let silent = SILENT.iter().any(|silent| text.contains(silent));
        // Tables are for people; their cells are the same as JSON.
        let words = match outcome == "done" && !silent {
            true => [&words[..], &["-f".to_owned(), "json".to_owned()]].concat(),
            false => words,
        };
        let mut outputs = ["ours", "theirs"].map(|cloud| {
            let output = operator.run(cloud, version, &words);
            let known = chosen.entry(cloud).or_default();
            if text.starts_with("resource provider create") && !text.contains("--uuid") {
                known.extend(output.json()["uuid"].as_str().map(str::to_owned));
            }
            // What follows is the schema itself, in the words of a library.
            let err = output
                .err
                .split("  Failed validating")
                .next()
                .unwrap_or_default();
            let [out, err] = [&output.out, err].map(|text| comparable(text, known));
            (output.code, out, err)
        });
        if outcome == "done" {
            // Where both do it, a warning of the client's is none of the service's.
            outputs
                .iter_mut()
                .for_each(|(_, _, err)| *err = Value::Null);
        }
        let [ours, theirs] = outputs;
        if ours != theirs || (ours.0 == 0) != (outcome == "done") {
            differences.push(format!(
                "{line}\n    ours: {ours:?}\n    theirs: {theirs:?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(left.is_empty(), "commands that were not run: {left:?}");
}
