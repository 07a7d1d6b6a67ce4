//! A server that runs already.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Credentials, Target};
use crate::http::{Http, Pem};

/// The server of the current context: its token or client certificate is an administrator's.
pub(super) fn read(file: &str) -> Result<Target, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let config: Value = serde_yaml::from_str(&text).map_err(|error| format!("{file}: {error}"))?;
    let named = |list: &str, name: &Value, what: &str| -> Value {
        let items = config[list].as_array().into_iter().flatten();
        let mut items = items.filter(|item| item["name"] == *name);
        items.next().map_or(Value::Null, |item| item[what].clone())
    };
    let context = named("contexts", &config["current-context"], "context");
    let cluster = named("clusters", &context["cluster"], "cluster");
    let user = named("users", &context["user"], "user");
    let folder = Path::new(file).parent().unwrap_or(Path::new("."));
    let pem = Pem {
        authority: data(&cluster, "certificate-authority", folder)?
            .ok_or_else(|| format!("{file}: no certificate-authority"))?,
        identity: match data(&user, "client-certificate", folder)? {
            Some(chain) => data(&user, "client-key", folder)?.map(|key| (chain, key)),
            None => None,
        },
    };
    let server = cluster["server"].as_str().unwrap_or_default();
    Ok(Target {
        http: Http::new(server, &pem)?,
        credentials: Credentials::Impersonation(user["token"].as_str().map(str::to_owned)),
        shared: true,
        accounts: true,
    })
}

/// `NAME-data` or the file at `NAME`.
fn data(of: &Value, name: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    if let Some(data) = of[format!("{name}-data")].as_str() {
        let data = STANDARD.decode(data).map_err(|error| error.to_string())?;
        return Ok(Some(data));
    }
    let Some(path) = of[name].as_str() else {
        return Ok(None);
    };
    let path = folder.join(path);
    std::fs::read(&path)
        .map(Some)
        .map_err(|error| format!("{}: {error}", path.display()))
}
