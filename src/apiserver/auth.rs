//! Who is asking, and whether they may: tokens, 401 and 403.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::{AUTHORIZATION, USER_AGENT};

use super::ApiError;
use super::options::Client;
use super::request::{Target, Verb};

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's name, else the user agent.
    pub(crate) name: String,
    /// The beginning of the user agent, which names the field manager.
    pub(crate) agent: String,
    client: Option<Client>,
}

/// Who has no token where others have one.
const ANONYMOUS: &str = "system:anonymous";

/// Longest field manager that is made of a user agent.
const MANAGER_LIMIT: usize = 128;

impl Caller {
    /// Finds out who sent a request. Who brings no token where there are tokens is nobody.
    ///
    /// # Errors
    /// 401 for a token that is not known, where there are tokens.
    pub(crate) fn of(
        headers: &HeaderMap,
        tokens: &BTreeMap<String, Client>,
    ) -> Result<Self, ApiError> {
        let header = |name| {
            headers
                .get(name)
                .and_then(|value: &http::HeaderValue| value.to_str().ok())
        };
        let user_agent = header(USER_AGENT).unwrap_or_default();
        let agent: String = user_agent
            .split('/')
            .next()
            .unwrap_or_default()
            .chars()
            .filter(|c| !c.is_control())
            .take(MANAGER_LIMIT)
            .collect();
        let agent = if agent.is_empty() {
            "unknown".to_owned()
        } else {
            agent
        };
        let token = header(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let client = match token.and_then(|token| tokens.get(token)) {
            None if tokens.is_empty() => None,
            None if headers.contains_key(AUTHORIZATION) => {
                return Err(ApiError::new(401, "Unauthorized", "Unauthorized"));
            }
            None => Some(Client {
                name: ANONYMOUS.to_owned(),
                rules: Some(Vec::new()),
                ..Client::default()
            }),
            client => client.cloned(),
        };
        let name = match &client {
            Some(client) => client.name.clone(),
            None if user_agent.is_empty() => agent.clone(),
            None => user_agent.to_owned(),
        };
        Ok(Self {
            name,
            agent,
            client,
        })
    }

    /// Whether it may do this.
    ///
    /// # Errors
    /// 403 in the words of a real server.
    pub(crate) fn may(&self, verb: Verb, target: &Target) -> Result<(), ApiError> {
        let Some(rules) = self
            .client
            .as_ref()
            .and_then(|client| client.rules.as_ref())
        else {
            return Ok(());
        };
        let resource = target.qualified();
        // A namespace is in itself.
        let namespace = match target.namespace.as_deref() {
            None if resource == "namespaces" || resource.starts_with("namespaces/") => {
                target.name.as_deref()
            }
            namespace => namespace,
        };
        let namespace = namespace.unwrap_or_default();
        let has =
            |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let allowed = rules.iter().any(|rule| {
            has(&rule.verbs, verb.name())
                && has(&rule.resources, &resource)
                && (rule.namespaces.is_empty() || has(&rule.namespaces, namespace))
        });
        if allowed {
            return Ok(());
        }
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {namespace:?}")
        };
        let why = format!(
            "User {:?} cannot {} resource {:?} in API group {:?} {place}",
            self.name,
            verb.name(),
            target.plural(),
            target.group
        );
        let name = target.name.as_deref().unwrap_or_default();
        Err(ApiError::forbidden(
            &target.group,
            &target.resource,
            name,
            &why,
        ))
    }
}

impl Caller {
    /// Whether it may read a path that names no resource: health and the version are everybody's,
    /// what there is on the server is for those that it knows.
    ///
    /// # Errors
    /// 403 in the words of a real server.
    pub(crate) fn may_read(&self, path: &str) -> Result<(), ApiError> {
        let limited = self
            .client
            .as_ref()
            .is_some_and(|client| client.rules.is_some());
        let under = |roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
        let known = self.name != ANONYMOUS;
        if !limited
            || under(&["/healthz", "/livez", "/readyz", "/version"])
            || known && under(&["/api", "/openapi"])
        {
            return Ok(());
        }
        let why = format!("User {:?} cannot get path {path:?}", self.name);
        Err(ApiError::forbidden("", "", "", &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::options::Permission;

    fn headers(token: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, "kubectl/v1 (linux)".parse().unwrap());
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        headers
    }

    #[test]
    fn tokens_are_asked_for_where_there_are_any() {
        let open = BTreeMap::new();
        let caller = Caller::of(&headers("x"), &open).unwrap();
        assert_eq!(
            (caller.name.as_str(), caller.agent.as_str()),
            ("kubectl/v1 (linux)", "kubectl")
        );
        let closed = BTreeMap::from([("secret".to_owned(), Client::admin("alice"))]);
        assert_eq!(Caller::of(&headers("x"), &closed).unwrap_err().code, 401);
        assert_eq!(
            Caller::of(&headers("secret"), &closed).unwrap().name,
            "alice"
        );
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let rules = vec![Permission {
            verbs: vec!["get".to_owned()],
            resources: vec!["pods".to_owned()],
            namespaces: vec!["a".to_owned()],
        }];
        let bob = Client {
            name: "bob".to_owned(),
            groups: Vec::new(),
            rules: Some(rules),
        };
        let tokens = BTreeMap::from([("b".to_owned(), bob)]);
        let caller = Caller::of(&headers("b"), &tokens).unwrap();
        let mut target = Target {
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
            namespace: Some("a".to_owned()),
            ..Target::default()
        };
        caller.may(Verb::Get, &target).unwrap();
        target.namespace = None;
        let error = caller.may(Verb::List, &target).unwrap_err();
        assert_eq!(
            error.message,
            "pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
        );
    }
}
