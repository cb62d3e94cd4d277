//! Checks that a case is a function of its points only: runs a sample of the sweep's cases twice. A case that another
//! run does not reproduce cannot be debugged, and its failure means nothing.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_client::{HttpService, TransportError};
use berth_fault_injection::InjectionPoint;
use berth_tests::sample::one_of;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use uuid::Uuid;

use crate::case::{Case, run, run_tampered};
use crate::scenarios::FaultScenario;
use crate::sweep::{CleanRun, on_all_processors};

/// One case of so many is run twice.
const EVERY: usize = 20 * one_of(3);

/// Where two runs part; none: they are one and the same.
fn parting(one: &Case, other: &Case) -> Option<String> {
    let (lines, others) = (one.trace.lines(), other.trace.lines());
    let parts = (0..lines.len().max(others.len())).find(|n| lines.get(*n) != others.get(*n));
    if let Some(n) = parts {
        let shown =
            |line: Option<&_>| line.map_or_else(|| "the end".to_owned(), ToString::to_string);
        return Some(format!(
            "{} | {}",
            shown(lines.get(n)),
            shown(others.get(n))
        ));
    }
    let summary = |case: &Case| {
        let (stood, history, files) = (&case.under_fault, &case.history, &case.files);
        without_uuids(&format!("{stood:?} {history:?} {files:?}"))
    };
    let (ours, theirs) = (summary(one), summary(other));
    let rows = one.end.essence().difference(&other.end.essence());
    match (ours == theirs, rows.is_empty()) {
        (false, _) => Some(format!("{ours} | {theirs}")),
        (true, false) => Some(format!("Placement in the end: {rows}")),
        (true, true) => None,
    }
}

/// A new node draws its UUID from the system, and each answer of Placement its request id (`req-…`): in every run another.
fn without_uuids(text: &str) -> String {
    let words = text.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
    let masked = words.map(|word| {
        let (dash, word) = match word.strip_prefix('-') {
            Some(id) => ("-", id),
            None => ("", word),
        };
        match word.get(..36).map(str::parse::<Uuid>) {
            Some(Ok(_)) => format!("{dash}UUID{}", &word[36..]),
            _ => format!("{dash}{word}"),
        }
    });
    masked.collect()
}

#[test]
fn a_repeated_case_gives_the_same_trace() {
    let swept: Vec<CleanRun> = FaultScenario::ALL.into_iter().map(CleanRun::of).collect();
    let points = |swept: &CleanRun| swept.clean.trace.points();
    let all = swept
        .iter()
        .flat_map(|swept| points(swept).into_iter().map(move |point| (swept, point)));
    let sample: Vec<(&CleanRun, InjectionPoint)> = all.step_by(EVERY).collect();
    assert!(sample.len() > 20, "{} cases say little", sample.len());
    let different = Mutex::new(Vec::new());
    on_all_processors(&sample, |(swept, point)| {
        let [one, other] = [(); 2].map(|()| run(&swept.situation, &[*point]));
        if let Some(parting) = parting(&one, &other) {
            let scenario = swept.situation.journey.as_str();
            let text = format!("{scenario}:{point}: {parting}");
            different.lock().unwrap().push(text);
        }
    });
    let different = different.into_inner().unwrap();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Refuses one request, counted over all runs: what a dice without a seed would do.
fn unseeded(http: HttpService, asked: &Arc<AtomicUsize>, refused: usize) -> HttpService {
    let asked = Arc::clone(asked);
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let is_refused = asked.fetch_add(1, Ordering::Relaxed) == refused;
        let http = http.clone();
        async move {
            if is_refused {
                let mut answer = Response::new(Bytes::new());
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                return Ok::<_, TransportError>(answer);
            }
            http.send(request).await
        }
    }))
}

#[test]
fn a_run_that_hangs_on_more_than_its_points_is_caught() {
    let swept = CleanRun::of(FaultScenario::StartupReshape);
    let runs = |refused| {
        let asked = Arc::new(AtomicUsize::new(0));
        let tampered = || {
            run_tampered(&swept.situation, &[], |http| {
                unseeded(http, &asked, refused)
            })
        };
        let one = tampered();
        let asked_by_one = asked.load(Ordering::Relaxed);
        (one, tampered(), asked_by_one)
    };
    let (one, other, asked) = runs(usize::MAX);
    assert_eq!(parting(&one, &other), None);
    let (one, other, _) = runs(asked + 3);
    assert_ne!(
        parting(&one, &other),
        None,
        "only the second run met a refusal"
    );
}
