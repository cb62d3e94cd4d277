//! Device profiles: queries, creation and deletion.

use berth_http::request_id::random_uuid;
use berth_model::{DeviceProfileGroups, DeviceProfileName};
use berth_store::{Disposition, Retryable, Row, SqlError, Statement, Transaction, Work};
use berth_wire::accelerator::{DeviceProfileBody, GroupBody};
use berth_wire::encode;
use uuid::Uuid;

use super::{AcceleratorTableError, foreign, moment, now, typed};

const TABLE: &str = "device_profiles";

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct ProfileRow {
    pub(crate) id: i64,
    pub(crate) body: DeviceProfileBody,
}

impl ProfileRow {
    /// Its groups, checked again.
    pub(crate) fn groups(&self) -> Result<DeviceProfileGroups, AcceleratorTableError> {
        let groups = self.body.groups.iter().cloned().map(GroupBody::into_group);
        groups
            .collect::<Result<Vec<_>, _>>()
            .and_then(DeviceProfileGroups::new)
            .map_err(|_| foreign(&self.body.name, TABLE, "profile_groups"))
    }
}

/// Why a profile could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("Device Profile not found with {0}")]
    NotFound(ProfileKey),
    #[error("A device_profile with name {0} already exists.")]
    NameTaken(String),
    #[error("A device_profile with uuid {0} already exists.")]
    UuidTaken(Uuid),
    #[error("Device profile {name} is in use by {requests} accelerator requests.")]
    InUse { name: String, requests: i64 },
    #[error(transparent)]
    Read(#[from] AcceleratorTableError),
}

impl From<SqlError> for ProfileError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for ProfileError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// How one profile is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProfileKey {
    Uuid(Uuid),
    Name(String),
}

impl ProfileKey {
    /// A UUID if the text is one; else a name.
    pub(crate) fn of(text: &str) -> Self {
        match Uuid::try_parse(text) {
            Ok(uuid) if text.len() == 36 => Self::Uuid(uuid),
            _ => Self::Name(text.to_owned()),
        }
    }
}

impl std::fmt::Display for ProfileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uuid(uuid) => write!(f, "uuid={uuid}"),
            Self::Name(name) => write!(f, "name={name}"),
        }
    }
}

const SELECT: &str = "SELECT id, uuid, name, description, profile_groups, created_at, updated_at \
                      FROM device_profiles";

fn profile(row: &Row) -> Result<ProfileRow, AcceleratorTableError> {
    let groups = row.text(4)?;
    Ok(ProfileRow {
        id: row.int(0)?,
        body: DeviceProfileBody {
            uuid: typed(&row.text(1)?, TABLE, "uuid")?,
            name: row.text(2)?,
            description: row.opt_text(3)?,
            groups: serde_json::from_str(&groups)
                .map_err(|_| foreign(&groups, TABLE, "profile_groups"))?,
            created_at: moment(row, 5)?,
            updated_at: moment(row, 6)?,
            links: Vec::new(),
        },
    })
}

/// The profiles with these names, or all, oldest first.
pub(crate) async fn list(
    tx: &mut Transaction,
    names: Option<&[String]>,
) -> Result<Vec<ProfileRow>, AcceleratorTableError> {
    let rows = match names {
        None => {
            tx.rows(Statement::new(format!("{SELECT} ORDER BY id")))
                .await?
        }
        Some(names) => {
            let head = Statement::new(format!("{SELECT} WHERE name IN"));
            tx.rows_in(&head, names, "ORDER BY id").await?
        }
    };
    rows.iter().map(profile).collect()
}

pub(crate) async fn get(
    tx: &mut Transaction,
    key: &ProfileKey,
) -> Result<ProfileRow, ProfileError> {
    let statement = match key {
        ProfileKey::Uuid(uuid) => {
            Statement::new(format!("{SELECT} WHERE uuid = ?")).bind(uuid.to_string())
        }
        ProfileKey::Name(name) => Statement::new(format!("{SELECT} WHERE name = ?")).bind(name),
    };
    match tx.row(statement).await? {
        Some(row) => Ok(profile(&row)?),
        None => Err(ProfileError::NotFound(key.clone())),
    }
}

pub(crate) struct CreateProfile {
    pub(crate) uuid: Option<Uuid>,
    pub(crate) name: DeviceProfileName,
    pub(crate) description: Option<String>,
    pub(crate) groups: DeviceProfileGroups,
}

impl Work for CreateProfile {
    type Output = ProfileRow;
    type Error = ProfileError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProfileRow, ProfileError> {
        let name = self.name.as_str();
        let taken = "SELECT 1 FROM device_profiles WHERE name = ?";
        if tx.row(Statement::new(taken).bind(name)).await?.is_some() {
            return Err(ProfileError::NameTaken(name.to_owned()));
        }
        let uuid = self.uuid.unwrap_or_else(random_uuid);
        let taken = "SELECT 1 FROM device_profiles WHERE uuid = ?";
        let taken = Statement::new(taken).bind(uuid.to_string());
        if tx.row(taken).await?.is_some() {
            return Err(ProfileError::UuidTaken(uuid));
        }
        let groups: Vec<GroupBody> = self.groups.as_slice().iter().map(GroupBody::from).collect();
        let groups = String::from_utf8_lossy(&encode(&groups)).into_owned();
        let sql = "INSERT INTO device_profiles (uuid, name, description, profile_groups, created_at) \
                   VALUES (?, ?, ?, ?, ?)";
        let insert = Statement::new(sql)
            .bind(uuid.to_string())
            .bind(name)
            .bind(self.description.as_deref())
            .bind(groups)
            .bind(now());
        tx.execute(insert).await?;
        get(tx, &ProfileKey::Uuid(uuid)).await
    }
}

/// Removes profiles, all of them or none.
pub(crate) struct DeleteProfile {
    pub(crate) keys: Vec<ProfileKey>,
}

impl Work for DeleteProfile {
    type Output = ();
    type Error = ProfileError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ProfileError> {
        for key in &self.keys {
            let profile = get(tx, key).await?;
            let sql = "SELECT COUNT(*) FROM accelerator_requests WHERE device_profile_id = ?";
            let row = tx.row(Statement::new(sql).bind(profile.id)).await?;
            let requests = row.map_or(Ok(0), |row| row.int(0))?;
            if requests > 0 {
                let name = profile.body.name;
                return Err(ProfileError::InUse { name, requests });
            }
            let delete = Statement::new("DELETE FROM device_profiles WHERE id = ?");
            tx.execute(delete.bind(profile.id)).await?;
        }
        Ok(())
    }
}
