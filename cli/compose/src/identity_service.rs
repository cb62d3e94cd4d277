//! Parts of the built-in Identity service: the service catalog of `[identity_service] catalog`, and failures of its file of users.

use berth_config::{Config, catalog_entry};
use berth_identity::{Catalog, CatalogService, Endpoint, EndpointInterface, UsersFileError};
use berth_output::{ErrorCode, Failure};

/// The services of this process (type, interface or all, and URL), unless an entry replaces one, and then the other
/// services of `[identity_service] catalog` in their order.
pub fn catalog(config: &Config, here: &[(&str, Option<EndpointInterface>, String)]) -> Catalog {
    let own = &config.identity_service;
    let listed = || own.catalog.iter().filter_map(|text| catalog_entry(text));
    let here = here
        .iter()
        .filter(|(service, ..)| listed().all(|(it, ..)| it != *service))
        .map(|(service, interface, url)| (*service, *interface, url.as_str()));
    let mut services: Vec<CatalogService> = Vec::new();
    for (service, interface, url) in here.chain(listed()) {
        let interfaces = interface.map_or(EndpointInterface::ALL.to_vec(), |one| vec![one]);
        let endpoints = interfaces.into_iter().map(|interface| Endpoint {
            region: own.region.clone(),
            interface,
            url: url.to_owned(),
        });
        match services.iter_mut().find(|it| it.service_type == service) {
            // A later entry replaces the URL for the interfaces that it names.
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

/// Why the file cannot be used, with a hint.
pub fn users_failure(error: &UsersFileError) -> Failure {
    match error {
        UsersFileError::Unreadable { .. } => {
            Failure::from_error(ErrorCode::Unreadable, error).hint(
                "write the file as /usr/share/doc/berth/guide/howto/identity.md shows, or name another one: --users FILE",
            )
        }
        UsersFileError::Writable { path } | UsersFileError::NoText { path } => {
            let hint = format!("chmod 0600 {}", path.display());
            Failure::new(ErrorCode::BadValue, error.to_string()).hint(hint)
        }
        UsersFileError::Untrusted { source, .. } => {
            Failure::caused(ErrorCode::Untrusted, error.to_string(), source).hint(source.hint())
        }
        UsersFileError::Empty { .. } => Failure::new(ErrorCode::BadValue, error.to_string())
            .hint("write the file as /usr/share/doc/berth/guide/howto/identity.md shows"),
        UsersFileError::Wrong(_) => Failure::new(ErrorCode::BadValue, error.to_string())
            .hint("correct these lines, then run: berth identity check"),
    }
}
