//! `berth identity`: serves the built-in Identity API alone, and checks its users file.

mod host_account;
mod password;
mod service;
mod users;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use berth_config::ListenAddress;
use berth_output::{ExitCode, Failure, ListFormat};

use self::host_account::HostLogin;
use crate::context::Context;

#[derive(Debug, clap::Args)]
pub struct IdentityArguments {
    #[command(subcommand)]
    command: IdentityCommand,
}

#[derive(Debug, clap::Subcommand)]
enum IdentityCommand {
    /// Serve the Identity API (Keystone v3) alone, until SIGTERM or Ctrl-C: users from a file, tokens in a database.
    #[command(after_help = "Examples:\n  berth identity serve\n  \
                            berth identity serve --users /etc/berth/identity.toml --listen 127.0.0.1:5000")]
    Serve {
        /// The database; default: [identity_service] connection. file:PATH reads the URL from a file.
        #[arg(long, value_name = "URL")]
        database: Option<String>,
        /// The address to listen on; default: [identity_service] listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
        /// The users file; default: [identity_service] users_file.
        #[arg(long, value_name = "FILE")]
        users: Option<PathBuf>,
    },
    /// Print the hash of a password, for `password_hash` in the users file. A terminal prompts twice without echo; a
    /// pipe supplies one line.
    #[command(after_help = "Examples:\n  berth identity hash-password\n  \
                            pass show cloud/admin | berth identity hash-password")]
    HashPassword,
    /// Add the account of a host to the users file: the user `host/NAME` with the role `service`, which speaks for this
    /// host alone. Prints the options with which the host's agent logs in, its new password included.
    #[command(after_help = "Examples:\n  berth identity host-account compute1\n  \
                            berth identity host-account compute1 --users /var/lib/berth-controller/identity.toml")]
    HostAccount {
        /// The name of the host: its `host` option, or its host name.
        #[arg(value_name = "HOST")]
        host: String,
        /// The users file; default: [identity_service] users_file.
        #[arg(long, value_name = "FILE")]
        users: Option<PathBuf>,
        /// The URL of the identity service for the agent; default: that of [api] internal_listen, else of public_endpoint,
        /// else of listen.
        #[arg(long, value_name = "URL")]
        auth_url: Option<String>,
    },
    /// The users in the users file.
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Check the users file; all errors are reported.
    #[command(
        after_help = "Examples:\n  berth identity check\n  berth identity check --users identity.toml"
    )]
    Check {
        /// The users file; default: [identity_service] users_file.
        #[arg(long, value_name = "FILE")]
        users: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Subcommand)]
enum UserCommand {
    /// List all users with id, domain and roles.
    #[command(
        after_help = "Examples:\n  berth identity user list\n  berth identity user list -f value -c id -c name"
    )]
    List {
        /// The users file; default: [identity_service] users_file.
        #[arg(long, value_name = "FILE")]
        users: Option<PathBuf>,
        #[command(flatten)]
        format: ListFormat,
    },
}

pub fn run(
    arguments: &IdentityArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    if let IdentityCommand::HashPassword = &arguments.command {
        password::hash(out)?;
        return Ok(ExitCode::Done);
    }
    let mut config = context.load()?.config;
    match &arguments.command {
        IdentityCommand::HashPassword => {}
        IdentityCommand::Serve {
            database,
            listen,
            users,
        } => {
            let own = &mut config.identity_service;
            own.users_file = users.clone().unwrap_or(own.users_file.clone());
            own.listen = listen.map_or(own.listen, ListenAddress::at);
            context.block_on(service::serve(database.as_deref(), &config, out))??;
        }
        IdentityCommand::HostAccount {
            host,
            users,
            auth_url,
        } => {
            let own = &config.identity_service.users_file;
            let auth_url = auth_url.clone();
            let login = HostLogin {
                auth_url: auth_url.unwrap_or_else(|| host_account::auth_url(&config)),
                cafile: config.api.cafile.as_deref(),
            };
            host_account::add(host, users.as_ref().unwrap_or(own), &login, out)?;
        }
        IdentityCommand::User {
            command: UserCommand::List { users, format },
        } => users::list(
            users
                .as_ref()
                .unwrap_or(&config.identity_service.users_file),
            format,
            out,
        )?,
        IdentityCommand::Check { users } => {
            users::check(
                users
                    .as_ref()
                    .unwrap_or(&config.identity_service.users_file),
                out,
            )?;
        }
    }
    Ok(ExitCode::Done)
}
