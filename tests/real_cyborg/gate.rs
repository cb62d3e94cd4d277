//! Cuts the connection to Cyborg once: at a request, before it arrives or after it was executed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use berth_client::{HttpService, TransportError};
use bytes::Bytes;
use http::{Method, Request};
use tower::service_fn;

/// Where an outage strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutagePoint {
    /// Nothing listens when the n-th question is asked.
    Before(usize),
    /// The n-th question is done, and its answer is lost.
    After(usize),
}

#[derive(Clone)]
pub(crate) struct OutageGate {
    asked: Arc<AtomicUsize>,
    /// The method of each question so far.
    questions: Arc<Mutex<Vec<Method>>>,
    cut: Option<OutagePoint>,
}

impl OutageGate {
    pub(crate) fn new(cut: Option<OutagePoint>) -> Self {
        Self {
            asked: Arc::default(),
            questions: Arc::default(),
            cut,
        }
    }

    /// The methods of the questions so far.
    pub(crate) fn questions(&self) -> Vec<Method> {
        let questions = self.questions.lock();
        questions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where an outage may strike: before each question, and after each that changes something.
    pub(crate) fn cuts(&self) -> Vec<OutagePoint> {
        let questions = self.questions();
        let cuts = questions.iter().enumerate().flat_map(|(at, method)| {
            let after = (method != Method::GET).then_some(OutagePoint::After(at));
            [Some(OutagePoint::Before(at)), after]
        });
        cuts.flatten().collect()
    }

    pub(crate) fn before(&self, http: HttpService) -> HttpService {
        let gate = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let (gate, http) = (gate.clone(), http.clone());
            async move {
                let at = gate.asked.fetch_add(1, Ordering::Relaxed);
                gate.questions
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(request.method().clone());
                match gate.cut {
                    Some(OutagePoint::Before(cut)) if at == cut => Err(TransportError::Refused {
                        peer: "cyborg".to_owned(),
                    }),
                    Some(OutagePoint::After(cut)) if at == cut => {
                        http.send(request).await.ok();
                        Err(TransportError::Closed {
                            reason: "connection reset by peer".to_owned(),
                        })
                    }
                    _ => http.send(request).await,
                }
            }
        }))
    }
}
