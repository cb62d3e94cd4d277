//! `workload FILE FILTERS REQUEST INSTANCES`: measures filtering and weighing for `make bench`.
//!
//! FILE is a workload of `make bench`: aggregates, hosts, requests. The program schedules the named request for the
//! given number of instances, with a comma-separated list of filters and all weighers. Every claim is granted. It
//! repeats this until the CPU time can be divided. It prints one line of JSON: placed instances, hosts that pass the
//! filters for the first instance, and milliseconds of CPU time for the first and each other instance, without a
//! record, with a record, and for a request without a valid host. It fails if another number of threads has another
//! result.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program says what it found, and what is wrong"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs, thread};

use berth_scheduler::host_state::{Aggregate, Aggregates, ConsideredHost};
use berth_scheduler::select::{
    Alternates, ClaimPolicy, NoValidHost, Scheduler, SelectionRequest, SelectionResult,
    SelectionStep,
};
use berth_scheduler::{RequestSpec, SchedulerOptions};
use berth_scheduler_explain::{Explanation, diagnose};
use serde_json::{Value, json};

/// So many hosts are made ready at a time, for as many runs as that is.
const READY: usize = 400_000;

/// CPU time has a resolution of 10 ms; this many ticks make a usable figure.
const ENOUGH: u32 = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = match words.as_slice() {
        [file, filters, request, instances] => run(file, filters, request, instances),
        _ => Err("usage: workload FILE FILTERS REQUEST INSTANCES".into()),
    };
    match ran {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("workload: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &str, filters: &str, request: &str, instances: &str) -> Result<Value, Box<dyn Error>> {
    let workload: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let (hosts, request) = read(&workload, request)?;
    drop(workload);
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = filters.split(',').map(str::to_owned).collect();
    let scheduler = Scheduler::new(options.clone())?;
    let bare = Scheduler::new(options.clone())?.without_record();
    let count: usize = instances.parse()?;
    let ended = end(scheduler.select(ask(&request, count), hosts.clone()));
    let chosen = SelectionSummary::of(&ended);
    let processors = thread::available_parallelism()?;
    for threads in [
        NonZero::<usize>::MIN,
        NonZero::new(2).ok_or("no two")?,
        processors,
    ] {
        let scheduler = Scheduler::new(options.clone())?.with_threads(threads);
        let ended = end(scheduler.select(ask(&request, count), hosts.clone()));
        if SelectionSummary::of(&ended) != chosen {
            return Err(format!("with {threads} threads there is another answer").into());
        }
    }
    let one = |scheduler: &Scheduler, request: &RequestSpec, hosts| {
        end(scheduler.select(ask(request, 1), hosts))
    };
    let mut nowhere = request.clone();
    let demand = ("capabilities:free_ram_mb".to_owned(), ">= 1e15".to_owned());
    nowhere.flavor.extra_specs.extend([demand]);
    if one(&scheduler, &nowhere, hosts.clone()).is_ok() {
        return Err("there is a host with so much memory".into());
    }
    let times = each(
        &hosts,
        1,
        &[
            &|hosts| drop(one(&scheduler, &request, hosts)),
            &|hosts| drop(one(&bare, &request, hosts)),
            &|hosts| drop(explained(&scheduler, one(&scheduler, &request, hosts))),
            &|hosts| drop(one(&bare, &nowhere, hosts)),
            &|hosts| drop(explained(&scheduler, one(&scheduler, &nowhere, hosts))),
        ],
    )?;
    let [first, bare_first, recorded, none, diagnosed] = times[..] else {
        return Err("a time is missing".into());
    };
    let all = |hosts| drop(end(scheduler.select(ask(&request, count), hosts)));
    let later = match u32::try_from(count.saturating_sub(1))? {
        0 => 0.0,
        others => (each(&hosts, count, &[&all])?[0] - first) / f64::from(others),
    };
    Ok(json!({
        "done": chosen.hosts.len(), "passed": chosen.passed, "first_ms": first, "later_ms": later.max(0.0),
        "bare_ms": bare_first, "recorded_ms": recorded, "none_ms": none, "diagnosed_ms": diagnosed,
    }))
}

fn ask(request: &RequestSpec, instances: usize) -> SelectionRequest {
    let uuid = |number| format!("00000007-0000-4000-8000-{number:012x}");
    SelectionRequest {
        request: request.clone(),
        instance_uuids: (0..instances).map(uuid).collect(),
        alternates: Alternates::None,
        claims: ClaimPolicy::Needed,
        seed: 0,
    }
}

fn end(mut step: SelectionStep<'_>) -> Result<SelectionResult, Box<NoValidHost>> {
    loop {
        step = match step {
            SelectionStep::Claim(claiming) => claiming.granted(),
            SelectionStep::Selected(selected) => return Ok(selected),
            SelectionStep::NoValidHost(none) => return Err(none.into()),
        }
    }
}

/// As services tell it.
fn explained(
    scheduler: &Scheduler,
    ended: Result<SelectionResult, Box<NoValidHost>>,
) -> Explanation {
    match ended {
        Ok(selected) => Explanation::of_selected(&selected),
        Err(none) => Explanation::of_no_valid_host(&none, diagnose(scheduler, &none)),
    }
}

#[derive(PartialEq)]
struct SelectionSummary {
    hosts: Vec<String>,
    /// Hosts that passed for the first instance.
    passed: usize,
    /// The number of hosts that each filter lets pass.
    by_filter: Vec<usize>,
}

impl SelectionSummary {
    fn of(ended: &Result<SelectionResult, Box<NoValidHost>>) -> Self {
        let (selections, record) = match ended {
            Ok(selected) => (selected.selections.as_slice(), &selected.record),
            Err(none) => (&[][..], &none.record),
        };
        let hosts = selections.iter().flatten();
        let turns = record.turns.iter().map(|turn| turn.passed.as_slice());
        let first = record.turns.first().and_then(|turn| turn.passed.last());
        Self {
            hosts: hosts.map(|one| one.host.host.clone()).collect(),
            passed: first.map_or(0, |one| one.after),
            by_filter: turns.flatten().map(|one| one.after).collect(),
        }
    }
}

/// Milliseconds of CPU time that each of several takes for one request of so many instances, in all threads. They take turns, so
/// what else the machine does is in all of them; the lists of hosts that they are given are made before the clock runs.
fn each(
    hosts: &[ConsideredHost],
    instances: usize,
    acts: &[&dyn Fn(Vec<ConsideredHost>)],
) -> Result<Vec<f64>, Box<dyn Error>> {
    let checks = hosts.len().max(1) * (1 + instances / 10);
    let ready = (READY / checks).clamp(1, 1_000);
    let mut spent = vec![0; acts.len()];
    let mut times = 0;
    while spent.iter().any(|spent| *spent < ENOUGH) {
        for (act, spent) in acts.iter().zip(&mut spent) {
            let given: Vec<_> = (0..ready).map(|_| hosts.to_vec()).collect();
            let begun = cpu()?;
            given.into_iter().for_each(act);
            *spent += cpu()? - begun;
        }
        times += u32::try_from(ready)?;
    }
    let each = |spent: u32| f64::from(spent) * 10.0 / f64::from(times);
    Ok(spent.into_iter().map(each).collect())
}

/// Hundredths of a second of this process so far: the 14th and 15th field of its `stat`.
fn cpu() -> Result<u32, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("a stat without a name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<u32>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum())
}

/// The hosts, those of the same aggregates with one value, and a request.
fn read(
    workload: &Value,
    request: &str,
) -> Result<(Vec<ConsideredHost>, RequestSpec), Box<dyn Error>> {
    let mut case = json!({"id": request, "request": workload["requests"][request], "hosts": workload["hosts"]});
    let mut sets: BTreeMap<String, Aggregates> = BTreeMap::new();
    let mut of_hosts = Vec::new();
    for host in case["hosts"].as_array_mut().ok_or("no hosts")? {
        let numbers = host["aggregates"].take();
        let key = numbers.to_string();
        if !sets.contains_key(&key) {
            sets.insert(key.clone(), aggregates(workload, &numbers)?);
        }
        host["aggregates"] = json!([]);
        of_hosts.extend(sets.get(&key).cloned());
    }
    case["request"]["numa_from_flavor"] = json!(true);
    let (mut hosts, request) = berth_scheduler_cases::hosts_and_request(&case)?;
    for (host, aggregates) in hosts.iter_mut().zip(of_hosts) {
        Arc::make_mut(&mut host.state).aggregates = aggregates;
    }
    Ok((hosts, request))
}

fn aggregates(workload: &Value, numbers: &Value) -> Result<Aggregates, Box<dyn Error>> {
    let all = workload["aggregates"].as_array().ok_or("no aggregates")?;
    let numbers = numbers.as_array().ok_or("a host without aggregates")?;
    let these = all.iter().filter(|one| numbers.contains(&one["id"]));
    let read = |one: &Value| -> Result<_, serde_json::Error> {
        Ok(Arc::new(Aggregate {
            uuid: None,
            name: one["id"].to_string(),
            metadata: serde_json::from_value(one["metadata"].clone())?,
        }))
    };
    Ok(Aggregates::new(these.map(read).collect::<Result<_, _>>()?))
}
