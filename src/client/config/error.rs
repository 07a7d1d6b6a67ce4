//! What is wrong with the way to the API server, in words for the person who has to mend it.

use std::fmt;
use std::path::PathBuf;

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nothing says where the API server is.
    #[error(
        "no kubeconfig and not in a cluster (looked at {looked_at}); pass --kubeconfig FILE or set KUBECONFIG"
    )]
    NotFound {
        /// The places that were tried.
        looked_at: String,
    },
    /// A kubeconfig, or a file that it names, can't be read.
    #[error("can't read kubeconfig {}: {source}; check the path and its permissions", file.display())]
    Read {
        /// The kubeconfig.
        file: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// Not YAML, or not of a kubeconfig's shape.
    #[error("kubeconfig {} is malformed: {message}", file.display())]
    Malformed {
        /// The kubeconfig.
        file: PathBuf,
        /// The parser's words, with key, line and column.
        message: String,
    },
    /// No context was asked for and none is current.
    #[error(
        "{} has no current-context; pass --context NAME ({})",
        Files(files),
        Known(known)
    )]
    NoContext {
        /// The kubeconfig files, merged in this order.
        files: Vec<PathBuf>,
        /// The contexts there are.
        known: Vec<String>,
    },
    /// The context does not exist.
    #[error(
        "{} has no context {context:?}; pass --context NAME ({})",
        Files(files),
        Known(known)
    )]
    UnknownContext {
        /// The context that was asked for, or that is current.
        context: String,
        /// The kubeconfig files, merged in this order.
        files: Vec<PathBuf>,
        /// The contexts there are.
        known: Vec<String>,
    },
    /// A key's value can't be used.
    #[error("kubeconfig {}, context {context:?}: {key}: {problem}", file.display())]
    Key {
        /// The file that holds the key.
        file: PathBuf,
        /// The context in use.
        context: String,
        /// Path of the key, such as `users[alice].user.client-key-data`.
        key: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The service account that Kubernetes mounts into a pod is not usable.
    #[error("in-cluster configuration: {}: {problem}", file.display())]
    InCluster {
        /// The file of the service account.
        file: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The environment asks for something that is not supported.
    #[error("environment variable {variable}: {problem}")]
    Environment {
        /// Name of the variable.
        variable: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// No TLS set-up can be made of otherwise readable parts.
    #[error("TLS for {server}: {problem}")]
    Tls {
        /// The server URL.
        server: String,
        /// What is wrong.
        problem: String,
    },
    /// A [`ClientOptions`](crate::client::ClientOptions) value is out of range.
    #[error("client option {option}: {problem}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// `kubeconfig a` or `kubeconfig a:b`, as KUBECONFIG would list them.
struct Files<'a>(&'a [PathBuf]);

impl fmt::Display for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kubeconfig ")?;
        for (i, file) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ":" }, file.display())?;
        }
        Ok(())
    }
}

struct Known<'a>(&'a [String]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("it has no contexts at all");
        }
        write!(f, "there are: {}", self.0.join(", "))
    }
}
