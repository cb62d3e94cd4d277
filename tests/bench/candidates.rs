//! Benchmarks GET /allocation_candidates: many hosts, and one host that can serve a request in many ways.

use std::time::Duration;

use serde_json::{Value, json};

use crate::meter::{MeterSpan, ms};
use crate::placement::{Api, Placement};
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, log};

/// How many hosts are asked for at once.
const HOSTS: u32 = 1000;
/// How many GPUs each has.
const GPUS: u32 = 8;

/// What is asked, and with how much CPU we want to answer it.
const QUESTIONS: [(&str, &str, Goal); 5] = [
    (
        "1,000 hosts x 8 GPUs, one granular group, limit 1000",
        "resources=VCPU:4,MEMORY_MB:4096&resources1=PGPU:1&limit=1000",
        Goal::PartOfPeer(200.0),
    ),
    (
        "the same, limit 10",
        "resources=VCPU:4,MEMORY_MB:4096&resources1=PGPU:1&limit=10",
        Goal::PartOfPeer(200.0),
    ),
    (
        "one host x 8 GPUs, 4 granular groups, all candidates",
        "in_tree=ROOT&in_tree1=ROOT&resources=VCPU:4&resources1=PGPU:1&resources2=PGPU:1&resources3=PGPU:1&resources4=PGPU:1&group_policy=none",
        Goal::PartOfPeer(50.0),
    ),
    (
        "one host x 8 GPUs, 5 granular groups, limit 1000",
        "in_tree=ROOT&in_tree1=ROOT&resources=VCPU:4&resources1=PGPU:1&resources2=PGPU:1&resources3=PGPU:1&resources4=PGPU:1\
         &resources5=PGPU:1&group_policy=none&limit=1000",
        Goal::AtMost(Figure::Ms(10.0)),
    ),
    (
        "one host x 8 GPUs, 6 granular groups, limit 1000",
        "in_tree=ROOT&in_tree1=ROOT&resources=VCPU:4&resources1=PGPU:1&resources2=PGPU:1&resources3=PGPU:1&resources4=PGPU:1\
         &resources5=PGPU:1&resources6=PGPU:1&group_policy=none&limit=1000",
        Goal::AtMost(Figure::Ms(10.0)),
    ),
];

/// A question that takes this long is asked once.
const LONG: Duration = Duration::from_secs(10);

/// Measures it on both.
pub(crate) fn measure() -> Outcome<Section> {
    log("GET /allocation_candidates");
    let placement = Placement::built_in()?;
    fill(&placement.api())?;
    let ours = ask(&placement, 20)?;
    // To fill the peer over its API would take longer than all the rest.
    let peer = ask(&placement.handed_over()?, 2)?;
    let rows = QUESTIONS.iter().zip(ours.iter().zip(&peer));
    let rows = rows.flat_map(|((what, _, goal), (ours, peer))| {
        let row = |kind: &str, of: fn(&MeterSpan) -> Figure, goal| Row {
            what: format!("{what}: {kind}"),
            peer: Some(of(peer)),
            ours: of(ours),
            goal,
        };
        [
            row("CPU", |spent| Figure::Ms(ms(spent.cpu)), Some(*goal)),
            row("wall", |spent| Figure::Ms(ms(spent.wall)), None),
        ]
    });
    Ok(Section {
        title: "GET /allocation_candidates",
        note: "Per request, of several alike; the service's time alone. The peer is OpenStack Placement 16 on SQLite, ours \
               `berth placement serve` on SQLite. Where there are more candidates than the limit, the peer names those of the \
               first hosts, ours some of every host.",
        rows: rows.collect(),
    })
}

/// The spending per request of each question.
fn ask(placement: &Placement, times: u32) -> Outcome<Vec<MeterSpan>> {
    let api = placement.api();
    let meter = placement.meter();
    let mut all = Vec::new();
    for (_, question, _) in QUESTIONS {
        let path = format!(
            "/allocation_candidates?{}",
            question.replace("ROOT", &uuid(0, 0))
        );
        // The first request may read what others do not read again.
        let before = meter.mark();
        let first = api.get_at("1.36", &path)?;
        let alone = meter.since(&before);
        if first["allocation_requests"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            return Err(format!("no candidates for {path}").into());
        }
        if alone.wall > LONG {
            all.push(alone);
            continue;
        }
        let before = meter.mark();
        for _ in 0..times {
            api.ask_at("1.36", &path)?;
        }
        all.push(meter.since(&before).each_of(times));
    }
    Ok(all)
}

fn uuid(host: u32, child: u32) -> String {
    format!("00000000-0000-4000-8000-{host:08}{child:04}")
}

fn fill(api: &Api) -> Outcome<()> {
    for host in 0..HOSTS {
        let inventories = json!({"VCPU": {"total": 64}, "MEMORY_MB": {"total": 262_144}});
        provider(api, &uuid(host, 0), None, &inventories)?;
        for gpu in 1..=GPUS {
            let inventories = json!({"PGPU": {"total": 1}});
            provider(api, &uuid(host, gpu), Some(&uuid(host, 0)), &inventories)?;
        }
    }
    Ok(())
}

fn provider(api: &Api, uuid: &str, parent: Option<&str>, inventories: &Value) -> Outcome<()> {
    let body = json!({"name": uuid, "uuid": uuid, "parent_provider_uuid": parent});
    api.post("/resource_providers", &body)?;
    let body = json!({"resource_provider_generation": 0, "inventories": inventories});
    api.put(&format!("/resource_providers/{uuid}/inventories"), &body)
}
