//! Endpoint lookup in the service catalog.

use berth_wire::keystone::CatalogService;

use super::{AuthError, AuthOptions, ServiceInterface};

/// A URL to which paths are appended: `http` or `https`, a host, an optional prefix, no trailing slash. It has no user,
/// password, query or fragment, because paths could not be appended and secrets would be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl(String);

impl BaseUrl {
    pub(crate) fn new(url: &str) -> Option<Self> {
        let url = url.trim().trim_end_matches('/');
        let parsed: http::Uri = url.parse().ok()?;
        let host = parsed.host().is_some_and(|host| !host.is_empty());
        let scheme = matches!(parsed.scheme_str(), Some("http" | "https"));
        let authority = parsed.authority()?.as_str();
        let bare = !authority.contains('@') && !url.contains(['?', '#']);
        (host && scheme && bare).then(|| Self(url.to_owned()))
    }

    /// Keystone's root URL for an `auth_url` with or without the version.
    pub(crate) fn unversioned(&self) -> &str {
        let bare = self.0.strip_suffix("/v2.0").unwrap_or(&self.0);
        bare.strip_suffix("/v3").unwrap_or(bare)
    }

    /// Keystone's v3 API under such an `auth_url`.
    pub(crate) fn v3(&self) -> Self {
        Self(format!("{}/v3", self.unversioned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A refused URL without user, password, query and fragment, which may be secrets.
fn shown(url: &str) -> String {
    let (bare, hidden) = match url.find(['?', '#']) {
        Some(end) => (&url[..end], "***"),
        None => (url, ""),
    };
    let start = bare.find("://").map_or(0, |at| at + 3);
    let bare = match bare.rfind('@') {
        Some(at) if at >= start => format!("{}***{}", &bare[..start], &bare[at..]),
        _ => bare.to_owned(),
    };
    let bare: String = bare.chars().take(200).collect();
    berth_wire::printable(&(bare + hidden)).into_owned()
}

/// The endpoint to look up in the catalog.
#[derive(Debug, Clone)]
pub(super) struct EndpointTarget {
    service_type: String,
    service_name: Option<String>,
    region: Option<String>,
    interfaces: Vec<ServiceInterface>,
    fixed: Option<BaseUrl>,
}

impl EndpointTarget {
    pub(super) fn of(options: &AuthOptions) -> Self {
        Self {
            service_type: options.service_type.clone(),
            service_name: options.service_name.clone(),
            region: options.region_name.clone(),
            interfaces: options.valid_interfaces.clone(),
            fixed: options.fixed_endpoint().and_then(BaseUrl::new),
        }
    }

    /// The endpoint of the first interface, in order of preference, that the region has.
    pub(super) fn endpoint(&self, catalog: &[CatalogService]) -> Result<BaseUrl, AuthError> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        let url = self.interfaces.iter().find_map(|interface| {
            let wanted = |name: &str| name.parse() == Ok(*interface);
            self.endpoints(catalog)
                .find(|e| wanted(&e.interface))
                .map(|e| e.url.as_str())
        });
        let url = url.ok_or_else(|| self.absent(catalog))?;
        BaseUrl::new(url).ok_or_else(|| AuthError::BadEndpoint {
            service_type: self.service_type.clone(),
            url: shown(url),
        })
    }

    fn services<'c>(
        &self,
        catalog: &'c [CatalogService],
    ) -> impl Iterator<Item = &'c CatalogService> {
        catalog.iter().filter(|service| {
            service.service_type == self.service_type
                && (self.service_name.is_none() || service.name == self.service_name)
        })
    }

    fn endpoints<'c>(
        &self,
        catalog: &'c [CatalogService],
    ) -> impl Iterator<Item = &'c berth_wire::keystone::CatalogEndpoint> {
        let region = self.region.as_deref();
        self.services(catalog)
            .flat_map(|service| &service.endpoints)
            .filter(move |endpoint| region.is_none() || endpoint.region() == region)
    }

    fn absent(&self, catalog: &[CatalogService]) -> AuthError {
        let mut offered: Vec<String> = self
            .services(catalog)
            .flat_map(|service| &service.endpoints)
            .map(|endpoint| {
                format!(
                    "{} in {}",
                    endpoint.interface,
                    endpoint.region().unwrap_or("no region")
                )
            })
            .collect();
        if offered.is_empty() {
            offered = catalog
                .iter()
                .map(|service| format!("service type {}", service.service_type))
                .collect();
        }
        offered.sort();
        offered.dedup();
        let interfaces: Vec<_> = self
            .interfaces
            .iter()
            .map(|interface| interface.as_str())
            .collect();
        let region = self
            .region
            .as_ref()
            .map_or_else(String::new, |region| format!(" in region {region}"));
        AuthError::NoEndpoint {
            wanted: format!(
                "{} ({}){region}",
                self.service_type,
                interfaces.join(" or ")
            ),
            offered: if offered.is_empty() {
                "nothing".to_owned()
            } else {
                offered.join(", ")
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_wire::keystone::CatalogEndpoint;

    fn endpoint(interface: &str, region: &str, url: &str) -> CatalogEndpoint {
        CatalogEndpoint {
            interface: interface.into(),
            region_id: None,
            region: Some(region.into()),
            url: url.into(),
        }
    }

    fn catalog() -> Vec<CatalogService> {
        let service = |service_type: &str, name: &str, endpoints| CatalogService {
            service_type: service_type.into(),
            name: Some(name.into()),
            endpoints,
        };
        vec![
            service(
                "compute",
                "nova",
                vec![endpoint("public", "one", "http://nova")],
            ),
            service(
                "placement",
                "placement",
                vec![
                    endpoint("public", "one", "https://api.one/placement/"),
                    endpoint("internal", "two", "http://two:8778"),
                    endpoint("public", "two", "https://api.two/placement"),
                ],
            ),
            service(
                "placement",
                "extracted",
                vec![endpoint("admin", "one", "not a url")],
            ),
        ]
    }

    fn find(change: impl FnOnce(&mut AuthOptions)) -> Result<String, AuthError> {
        let mut options = AuthOptions::for_service("placement");
        change(&mut options);
        EndpointTarget::of(&options)
            .endpoint(&catalog())
            .map(|url| url.as_str().to_owned())
    }

    #[test]
    fn interface_region_and_name_choose_the_endpoint() {
        assert_eq!(find(|_| {}).unwrap(), "http://two:8778");
        assert_eq!(
            find(|o| o.region_name = Some("one".into())).unwrap(),
            "https://api.one/placement"
        );
        assert_eq!(
            find(|o| o.valid_interfaces = vec![ServiceInterface::Public]).unwrap(),
            "https://api.one/placement"
        );
        assert_eq!(
            find(|o| o.endpoint_override = Some("http://fixed/".into())).unwrap(),
            "http://fixed"
        );
        assert_eq!(
            find(|o| o.service_type = "compute".into()).unwrap(),
            "http://nova"
        );
    }

    #[test]
    fn what_is_missing_is_reported_with_what_exists() {
        let error = find(|o| o.region_name = Some("three".into()))
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(error, @"the catalog has no endpoint for placement (internal or public) in region three; it offers admin in one, internal in two, public in one, public in two; set region_name, valid_interfaces or endpoint_override");
        let error = find(|o| o.service_type = "accelerator".into())
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(error, @"the catalog has no endpoint for accelerator (internal or public); it offers service type compute, service type placement; set region_name, valid_interfaces or endpoint_override");
        let error = find(|o| o.valid_interfaces = vec![ServiceInterface::Admin])
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(error, @r#"the catalog's endpoint of placement is "not a url", which is no URL that paths can be appended to; set endpoint_override"#);
    }

    #[test]
    fn a_refused_url_is_shown_without_what_may_be_secret() {
        for (url, seen) in [
            ("not a url", "not a url"),
            ("http://berth:hunter2@host/p", "http://***@host/p"),
            ("http://host/p?token=hunter2", "http://host/p***"),
            ("http://host/p#hunter2", "http://host/p***"),
            ("berth:hunter2@host", "***@host"),
            ("http://host/p?a=@b", "http://host/p***"),
        ] {
            assert_eq!(shown(url), seen);
        }
    }

    #[test]
    fn base_urls_are_http_with_a_host() {
        for (text, url) in [
            ("http://127.0.0.1:8778", Some("http://127.0.0.1:8778")),
            ("https://host/identity/", Some("https://host/identity")),
            (" http://host ", Some("http://host")),
            ("ftp://host", None),
            ("host:5000", None),
            ("/v3", None),
            ("http://", None),
            ("http://host?x=1", None),
            ("http://host/#x", None),
            ("http://user:secret@host", None),
            ("", None),
        ] {
            assert_eq!(
                BaseUrl::new(text).as_ref().map(BaseUrl::as_str),
                url,
                "{text}"
            );
        }
        for url in [
            "http://h",
            "http://h/",
            "http://h/v3",
            "http://h/v3/",
            "http://h/v2.0",
        ] {
            assert_eq!(
                BaseUrl::new(url).unwrap().v3().as_str(),
                "http://h/v3",
                "{url}"
            );
        }
    }
}
