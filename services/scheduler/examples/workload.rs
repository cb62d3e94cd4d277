//! `workload FILE FILTERS REQUEST INSTANCES`: the benchmark's own half of filter and weigh.
//!
//! FILE is a workload of `make bench`: aggregates, hosts, requests. The request of this name is scheduled for so many instances by a
//! comma list of filters and all weighers, each claim granted, and again until there is enough CPU time to divide. Says in a line of
//! JSON how many instances were placed, how many hosts passed the filters for the first one, and the milliseconds of CPU time of
//! the first one and of each other.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program says what it found, and what is wrong"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs};

use berth_scheduler::host_state::{Aggregate, Aggregates, ConsideredHost};
use berth_scheduler::select::{Alternates, Ask, Claims, Scheduler, Step};
use berth_scheduler::{Options, RequestSpec, replay};
use serde_json::{Value, json};

/// CPU time is told in hundredths of a second: so many of them make a figure.
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
    let mut options = Options::default();
    options.filter_scheduler.enabled_filters = filters.split(',').map(str::to_owned).collect();
    let scheduler = Scheduler::new(options)?;
    let schedule = |count: u32| {
        let ask = Ask {
            request: request.clone(),
            instance_uuids: (0..count)
                .map(|n| format!("00000007-0000-4000-8000-{n:012x}"))
                .collect(),
            alternates: Alternates::None,
            claims: Claims::Needed,
            seed: 0,
        };
        end(scheduler.select(ask, hosts.clone()))
    };
    let count: u32 = instances.parse()?;
    let (done, passed) = schedule(count);
    let first = each(|| schedule(1))?;
    let later = match count {
        0 | 1 => 0.0,
        _ => (each(|| schedule(count))? - first) / f64::from(count - 1),
    };
    Ok(json!({"done": done, "passed": passed, "first_ms": first, "later_ms": later.max(0.0)}))
}

/// Grants every claim: the instances that were placed, and the hosts that passed for the first.
fn end(mut step: Step<'_>) -> (usize, usize) {
    loop {
        step = match step {
            Step::Claim(claiming) => claiming.granted(),
            Step::Selected(selected) => {
                let first = selected.record.turns.first();
                let passed = first.and_then(|turn| turn.passed.last());
                return (selected.selections.len(), passed.map_or(0, |it| it.after));
            }
            Step::NoValidHost(_) => return (0, 0),
        }
    }
}

/// Milliseconds of CPU time of one, in all threads.
fn each<T>(mut act: impl FnMut() -> T) -> Result<f64, Box<dyn Error>> {
    let begun = cpu()?;
    let mut times = 0;
    loop {
        act();
        times += 1;
        let spent = cpu()? - begun;
        if spent >= ENOUGH {
            return Ok(f64::from(spent) * 10.0 / f64::from(times));
        }
    }
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
    let (mut hosts, request) = replay::scene(&case)?;
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
