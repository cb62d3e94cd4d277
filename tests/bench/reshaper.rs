//! Benchmarks POST /reshaper alone: one request, as the agent would send it, to each Placement.

use std::collections::BTreeMap;

use berth_model::ProviderUuid;
use berth_virt::VgpuModel;
use serde_json::{Map, Value, json};

use crate::agent::{self, RunningAgent};
use crate::meter::MeterSpan;
use crate::placement::{Api, Placement};
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, host, log};

/// Measures it with this many consumers, on both.
pub(crate) fn measure(guests: u32) -> Outcome<Section> {
    log(&format!("POST /reshaper, {guests} consumers"));
    let ours = reshape(&Placement::built_in()?, guests)?;
    let peer = reshape(&Placement::real()?, guests)?;
    let row = |what: &str, of: fn(&MeterSpan) -> Figure| Row {
        what: format!("{guests} consumers, 8 children: {what}"),
        peer: Some(of(&peer)),
        ours: of(&ours),
        goal: Some(Goal::PartOfPeer(200.0)),
    };
    Ok(Section {
        title: "POST /reshaper",
        note: "One request of the same content; the service's time alone. The peer is OpenStack Placement 16 on SQLite, ours \
               `berth placement serve` on SQLite.",
        rows: vec![
            row("CPU", |spent| Figure::Ms(crate::meter::ms(spent.cpu))),
            row("wall", |spent| Figure::Ms(crate::meter::ms(spent.wall))),
        ],
    })
}

fn reshape(placement: &Placement, guests: u32) -> Outcome<MeterSpan> {
    let api = placement.api();
    let mut home = agent::home_reporting_to(&api.url)?;
    host::write_machine(&home, guests, VgpuModel::Root)?;
    RunningAgent::start(&mut home, "agent")?.stop()?;
    let root = host::root(&home)?;
    host::claim(&api, guests, root)?;
    let body = body(&api, guests, root)?;
    let meter = placement.meter();
    let before = meter.mark();
    api.post("/reshaper", &body)?;
    let spent = meter.since(&before);
    if host::is_reshaped(&api, guests, root)? {
        Ok(spent)
    } else {
        Err("after POST /reshaper not every unit is on a GPU's provider".into())
    }
}

/// Creates the children, and says what is to be where.
fn body(api: &Api, guests: u32, root: ProviderUuid) -> Outcome<Value> {
    let mut inventories = Map::new();
    let mut children = BTreeMap::new();
    for (number, (gpu, units)) in host::gpus(guests)?.into_iter().enumerate() {
        let uuid = format!("00000000-0000-4000-8000-{number:012}");
        let child = json!({"name": format!("{}_{gpu}", host::NAME), "uuid": uuid, "parent_provider_uuid": root.to_string()});
        api.post("/resource_providers", &child)?;
        let inventory = json!({"resource_provider_generation": 0, "inventories": {"VGPU": {"total": units, "max_unit": units}}});
        inventories.insert(uuid.clone(), inventory);
        children.insert(gpu, uuid);
    }
    let mut on_root = api.get(&format!("/resource_providers/{root}/inventories"))?;
    on_root["inventories"]
        .as_object_mut()
        .map(|classes| classes.remove("VGPU"));
    inventories.insert(root.to_string(), on_root);

    let gpus = host::gpus_of_guests(guests)?;
    let mut allocations = Map::new();
    for (consumer, of) in host::held(guests, root)?.consumers() {
        let consumer = consumer.to_string();
        let on_root = of
            .resources
            .iter()
            .filter(|((_, class), _)| class.to_string() != "VGPU");
        let on_root: BTreeMap<_, _> = on_root
            .map(|((_, class), amount)| (class.to_string(), amount))
            .collect();
        let child = gpus
            .get(&consumer)
            .and_then(|gpu| children.get(gpu))
            .ok_or("each guest has a GPU")?;
        let moved = json!({"project_id": of.project_id, "user_id": of.user_id, "consumer_generation": 1,
            "allocations": {root.to_string(): {"resources": on_root}, child: {"resources": {"VGPU": 1}}}});
        allocations.insert(consumer, moved);
    }
    Ok(json!({"inventories": inventories, "allocations": allocations}))
}
