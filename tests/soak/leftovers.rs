//! What a cluster leaves behind when it is deleted.

use mainstay::client::{
    Client, DeleteOptions, Error, ListOptions, ListPage, PERSISTENT_VOLUME_CLAIM, SECRET,
};
use serde_json::Value;

use super::world::PLACE;

/// Deletes the volumes of a cluster that is gone, and the passwords that are in them. Without that the
/// world would grow, and each cache with it.
pub(crate) async fn clear(person: &Client, cluster: &str) -> Result<(), Error> {
    let left = ListOptions {
        label_selector: Some(format!("mysql.mainstay.dev/cluster={cluster}")),
        ..ListOptions::default()
    };
    for kind in [PERSISTENT_VOLUME_CLAIM, SECRET] {
        let page: ListPage<Value> = person.list(kind, Some(PLACE), &left).await?;
        for object in page.items {
            let object = object.expect("it is JSON");
            let name = object["metadata"]["name"].as_str().expect("it has a name");
            let options = DeleteOptions::default();
            match person.delete(kind, Some(PLACE), name, &options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
