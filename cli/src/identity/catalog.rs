//! The catalog, as `[identity_service] catalog` says it beside what is served here.

use berth_identity::{Catalog, CatalogService, Endpoint, EndpointInterface};

use crate::config::{Config, catalog_entry};

/// The services of this process (type and URL), unless an entry says where one is, and the services of `[identity_service] catalog` in
/// their order.
pub(crate) fn catalog(config: &Config, here: &[(&str, String)]) -> Catalog {
    let own = &config.identity_service;
    let listed = || own.catalog.iter().filter_map(|text| catalog_entry(text));
    let here = here
        .iter()
        .filter(|(service, _)| listed().all(|(it, ..)| it != *service))
        .map(|(service, url)| (*service, None, url.as_str()));
    let mut services: Vec<CatalogService> = Vec::new();
    for (service, interface, url) in here.chain(listed()) {
        let interfaces = interface.map_or(EndpointInterface::ALL.to_vec(), |one| vec![one]);
        let endpoints = interfaces.into_iter().map(|interface| Endpoint {
            region: own.region.clone(),
            interface,
            url: url.to_owned(),
        });
        match services.iter_mut().find(|it| it.service_type == service) {
            // A later entry says it anew for the callers that it is for.
            Some(known) => {
                for endpoint in endpoints {
                    known
                        .endpoints
                        .retain(|it| it.interface != endpoint.interface);
                    known.endpoints.push(endpoint);
                }
            }
            None => services.push(CatalogService {
                service_type: service.to_owned(),
                name: service.to_owned(),
                endpoints: endpoints.collect(),
            }),
        }
    }
    Catalog::new(services)
}
