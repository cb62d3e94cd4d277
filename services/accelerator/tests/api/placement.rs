//! A Placement that only says which providers it has.

use std::sync::{Arc, Mutex};

use berth_client::{AdapterOptions, Auth, HttpService, PlacementClient, TransportError};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

/// The placement. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Placement {
    /// The providers, all of one tree.
    pub(crate) providers: Arc<Mutex<Vec<String>>>,
}

impl Placement {
    pub(crate) fn has(&self, providers: &[&str]) {
        *self.providers.lock().unwrap() = providers.iter().map(|uuid| (*uuid).to_owned()).collect();
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let asked = request.uri().query().unwrap_or_default();
        let asked = asked
            .strip_prefix("in_tree=")
            .expect("the query names a tree");
        let providers = self.providers.lock().unwrap();
        let body = |uuid: &String| json!({"uuid": uuid, "name": uuid, "generation": 1});
        let tree: Vec<Value> = match providers.iter().any(|uuid| uuid == asked) {
            true => providers.iter().map(body).collect(),
            false => Vec::new(),
        };
        let document = json!({"resource_providers": tree}).to_string();
        Response::new(Bytes::from(document))
    }

    pub(crate) fn client(&self) -> PlacementClient {
        let placement = self.clone();
        let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let answer = placement.answer(&request);
            async move { Ok::<_, TransportError>(answer) }
        }));
        let auth = Auth::none("http://placement.example").unwrap();
        PlacementClient::new(http, auth, &AdapterOptions::default())
    }
}
