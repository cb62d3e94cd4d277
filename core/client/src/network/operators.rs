//! Calls that create and delete networks, subnets and routers.

use berth_wire::encode;
use berth_wire::neutron::{
    CreateNetworkBody, CreateNetworkDocument, CreateRouterBody, CreateRouterDocument,
    CreateSubnetBody, CreateSubnetDocument, NetworkDocument, NetworkRecord, RouterDocument,
    RouterInterfaceBody, RouterList, RouterRecord, SubnetDocument, SubnetRecord,
};
use berth_wire::query_string;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{NETWORKS, NetworkClient, NetworkClientError, ONE_NETWORK, SUBNETS, responses, write};
use crate::call::Repeat;
use crate::placement::DeleteOutcome;

const ONE_SUBNET: &str = "/v2.0/subnets/{subnet_id}";
const ROUTERS: &str = "/v2.0/routers";
const ONE_ROUTER: &str = "/v2.0/routers/{router_id}";
const ADD_INTERFACE: &str = "/v2.0/routers/{router_id}/add_router_interface";
const REMOVE_INTERFACE: &str = "/v2.0/routers/{router_id}/remove_router_interface";

impl NetworkClient {
    /// POST /v2.0/networks.
    pub async fn create_network(
        &self,
        network: CreateNetworkBody,
    ) -> Result<NetworkRecord, NetworkClientError> {
        let body = CreateNetworkDocument { network };
        let made: NetworkDocument = self.create(NETWORKS, &body, "a network").await?;
        Ok(made.network)
    }

    pub async fn delete_network(&self, id: Uuid) -> Result<DeleteOutcome, NetworkClientError> {
        self.delete(ONE_NETWORK, format!("{NETWORKS}/{id}")).await
    }

    /// POST /v2.0/subnets.
    pub async fn create_subnet(
        &self,
        subnet: CreateSubnetBody,
    ) -> Result<SubnetRecord, NetworkClientError> {
        let body = CreateSubnetDocument { subnet };
        let made: SubnetDocument = self.create(SUBNETS, &body, "a subnet").await?;
        Ok(made.subnet)
    }

    pub async fn delete_subnet(&self, id: Uuid) -> Result<DeleteOutcome, NetworkClientError> {
        self.delete(ONE_SUBNET, format!("{SUBNETS}/{id}")).await
    }

    /// POST /v2.0/routers.
    pub async fn create_router(
        &self,
        router: CreateRouterBody,
    ) -> Result<RouterRecord, NetworkClientError> {
        let body = CreateRouterDocument { router };
        let made: RouterDocument = self.create(ROUTERS, &body, "a router").await?;
        Ok(made.router)
    }

    /// GET /v2.0/routers?tenant_id=P.
    pub async fn routers_of_project(
        &self,
        project: &str,
    ) -> Result<Vec<RouterRecord>, NetworkClientError> {
        let query = query_string([("tenant_id", project)]);
        self.list::<RouterList>(ROUTERS, query).await
    }

    /// PUT /v2.0/routers/{id}/add_router_interface: the router becomes the gateway of a subnet.
    pub async fn add_router_interface(
        &self,
        router: Uuid,
        subnet: Uuid,
    ) -> Result<(), NetworkClientError> {
        self.router_interface(ADD_INTERFACE, "add_router_interface", router, subnet)
            .await
    }

    /// PUT /v2.0/routers/{id}/remove_router_interface.
    pub async fn remove_router_interface(
        &self,
        router: Uuid,
        subnet: Uuid,
    ) -> Result<(), NetworkClientError> {
        self.router_interface(REMOVE_INTERFACE, "remove_router_interface", router, subnet)
            .await
    }

    pub async fn delete_router(&self, id: Uuid) -> Result<DeleteOutcome, NetworkClientError> {
        self.delete(ONE_ROUTER, format!("{ROUTERS}/{id}")).await
    }

    async fn router_interface(
        &self,
        route: &'static str,
        action: &str,
        router: Uuid,
        subnet_id: Uuid,
    ) -> Result<(), NetworkClientError> {
        let body = Some(encode(&RouterInterfaceBody { subnet_id }));
        let path = format!("{ROUTERS}/{router}/{action}");
        let call = write(Method::PUT, route, path, body, Repeat::Once);
        responses::require_success(self.ask(call).await?).map(drop)
    }

    async fn create<T: DeserializeOwned>(
        &self,
        route: &'static str,
        body: &impl Serialize,
        expected: &'static str,
    ) -> Result<T, NetworkClientError> {
        let body = Some(encode(body));
        let call = write(Method::POST, route, route.to_owned(), body, Repeat::Once);
        responses::parsed(self.ask(call).await?, expected)
    }
}
