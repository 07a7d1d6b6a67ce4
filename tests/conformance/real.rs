//! Where the truth comes from.

use serde_json::Value;

use super::recording::{Answers, Recordings};
use super::script::{Case, Script};
use super::target::{Pair, Target, programs};
use super::{project, run};

/// A real server, or what was recorded of one.
#[derive(Debug)]
pub(crate) struct Real {
    source: Source,
    recordings: Recordings,
    /// `v1.37.2`; of the recordings where there is no server.
    version: String,
    described: String,
}

#[derive(Debug)]
enum Source {
    Server(Box<Target>),
    Pair(Box<Pair>),
    Recorded,
}

impl Real {
    /// The first that there is, as the environment says.
    pub(crate) async fn find() -> Result<Self, String> {
        let recordings = Recordings::new(&project("tests/conformance/recorded"));
        let (source, described) = Self::source().await?;
        let mut real = Self {
            source,
            version: recordings.version(),
            recordings,
            described,
        };
        if let Some(target) = real.target() {
            let (_, body) = target.admin("GET", "/version", None).await?;
            let version = body["gitVersion"].as_str().unwrap_or_default();
            version.clone_into(&mut real.version);
        }
        Ok(real)
    }

    async fn source() -> Result<(Source, String), String> {
        if let Ok(file) = std::env::var("MAINSTAY_CONFORMANCE_KUBECONFIG") {
            let target = Target::of_kubeconfig(&file)?;
            return Ok((
                Source::Server(Box::new(target)),
                format!("the one of {file}"),
            ));
        }
        if std::env::var("MAINSTAY_CONFORMANCE").is_ok_and(|value| value == "recorded") {
            return Ok((Source::Recorded, "recorded answers".to_owned()));
        }
        match programs() {
            Ok(folder) => {
                let pair = Pair::start(&folder).await?;
                Ok((
                    Source::Pair(Box::new(pair)),
                    format!("the one of {}", folder.display()),
                ))
            }
            Err(why) => Ok((Source::Recorded, format!("recorded answers ({why})"))),
        }
    }

    fn target(&self) -> Option<&Target> {
        match &self.source {
            Source::Server(target) => Some(target),
            Source::Pair(pair) => Some(&pair.target),
            Source::Recorded => None,
        }
    }

    /// For the report.
    pub(crate) fn describe(&self) -> String {
        format!("kube-apiserver {}, {}", self.version, self.described)
    }

    /// What was recorded of a script.
    pub(crate) fn recorded(&self, script: &str) -> Result<Answers, String> {
        self.recordings.read(script)
    }

    /// Whether the server must answer as the recordings say.
    pub(crate) fn is_of_the_recorded_version(&self) -> bool {
        self.version == self.recordings.version()
    }

    /// A server's answers; `None` where there is none, or none that this case can run on.
    pub(crate) async fn answers(&self, case: &Case) -> Result<Option<Vec<Value>>, String> {
        match self.target() {
            Some(target) if !(case.alone && target.shared) => {
                run::run(target, case).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Writes the answers down; those of cases that were not chosen stay, those of cases that there
    /// are not any more go.
    pub(crate) async fn record(&mut self, scripts: &[Script]) -> Result<(), String> {
        let all = Script::read_all(&project("tests/conformance/cases"))?;
        for script in scripts {
            let mut answers = self.recordings.read(&script.name)?;
            for case in &script.cases {
                let new = self.answers(case).await?;
                let new = new.ok_or("there is no server of one's own to record")?;
                let failed = new.iter().filter(|answer| answer.get("failed").is_some());
                for answer in failed {
                    eprintln!("{}: {}: {answer}", script.name, case.name);
                }
                answers.insert(case.name.clone(), new);
            }
            let known = all.iter().filter(|known| known.name == script.name);
            let known: Vec<&str> = known
                .flat_map(|script| script.cases.iter().map(|case| case.name.as_str()))
                .collect();
            answers.retain(|name, _| known.contains(&name.as_str()));
            let count: usize = answers.values().map(Vec::len).sum();
            println!("{}: {} cases, {count} answers", script.name, answers.len());
            self.recordings.write(&script.name, &answers)?;
        }
        self.recordings.write_version(&self.version)
    }
}
