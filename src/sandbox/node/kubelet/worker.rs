//! The worker of one pod: steps its machine, does what it says, and has its status reported.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::config::{check, command, environment, mounts, volumes};
use super::report::{Report, Reporter};
use super::{Kubelet, PodRef};
use crate::client::POD;
use crate::runtime::{EventType, Kind as _, ObjectRef};
use crate::sandbox::node::kinds::Pod;
use crate::sandbox::node::machine::{Action, ContainerRun, Event, Facts, Machine, Now, ProbeKind};
use crate::sandbox::node::runtime::{ContainerSpec, Content, PodVolume, Signal};
use crate::sandbox::node::writer::Writer;
use crate::sync::watch;

/// The API server's default for a probe's `timeoutSeconds`.
const PROBE_TIMEOUT: u64 = 1;

/// The pod as the API server has it.
#[derive(Clone)]
pub(super) struct View {
    /// Its last state.
    pub(super) pod: Arc<Pod>,
    /// It is not there any more.
    pub(super) gone: bool,
}

/// The worker of one pod, of one UID.
pub(super) struct Worker {
    kubelet: Arc<Kubelet>,
    place: PodRef,
    host_ip: IpAddr,
    view: watch::Receiver<View>,
    happened: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    /// What the volumes hold, once they are mounted.
    mounted: Option<Vec<PodVolume>>,
}

impl Worker {
    pub(super) fn new(
        kubelet: Arc<Kubelet>,
        place: PodRef,
        host_ip: IpAddr,
        view: watch::Receiver<View>,
    ) -> Self {
        let (happened, events) = mpsc::unbounded_channel();
        Self {
            kubelet,
            place,
            host_ip,
            view,
            happened,
            events,
            mounted: None,
        }
    }

    /// Runs until nothing of the pod is left, here and in the API.
    pub(super) async fn run(mut self) {
        let pod = Arc::clone(&self.view.borrow().pod);
        let running = self.kubelet.runtime.running(&self.place);
        let mut machine = Machine::new(&pod, self.place.ip, self.host_ip, &running, self.now());
        for (container, run) in running {
            self.await_exit(ContainerRun { container, run });
        }
        let (report, reported) = watch::channel(Report::default());
        let reporter = Reporter {
            writer: Writer {
                client: self.kubelet.client.clone(),
            },
            store: self.kubelet.stores.pods.clone(),
            report: reported,
            view: self.view.clone(),
        };
        // Beside this: whatever the API server does, the pod is looked after.
        let reporter = Guard(tokio::spawn(reporter.run()));
        let mut config = self.kubelet.config.subscribe();
        loop {
            let View { pod, gone } = self.view.borrow_and_update().clone();
            config.borrow_and_update();
            self.refresh(&pod);
            let now = self.now();
            let facts = if machine.wants_facts() { self.facts(&pod) } else { Facts::default() };
            for action in machine.step(&pod, gone, &facts, now) {
                self.perform(&pod, action);
            }
            let finished = machine.is_finished();
            let status = machine.status(&pod, now);
            report.send_if_modified(|report| {
                let next = Report {
                    status: Some(status),
                    finished,
                };
                let changed = *report != next;
                *report = next;
                changed
            });
            if finished && gone {
                break;
            }
            let wake = machine.wake(now);
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.take(&mut machine, &pod, event),
                changed = self.view.changed() => if changed.is_err() {
                    break;
                },
                _ = config.changed() => {}
                () = until(wake) => {}
            }
        }
        drop(reporter);
        self.kubelet.lock().pods.remove(&self.place.uid);
    }

    fn take(&mut self, machine: &mut Machine, pod: &Pod, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next {
            self.note(&event);
            for action in machine.event(&event, self.now()) {
                self.perform(pod, action);
            }
            next = self.events.try_recv().ok();
        }
    }

    /// What follows from an event whatever the machine makes of it.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Started(run, Ok(())) => self.await_exit(run.clone()),
            Event::Mounted(Err(_)) | Event::Unmounted => {
                self.mounted = None;
                let mut state = self.kubelet.lock();
                state.attached.retain(|_, holder| *holder != self.place.uid);
            }
            Event::Mounted(Ok(()))
            | Event::Started(_, Err(_))
            | Event::Exited(..)
            | Event::Probed(..) => {}
        }
    }

    fn now(&self) -> Now {
        Now {
            instant: Instant::now(),
            wall: self.kubelet.client.environment().now(),
        }
    }

    /// What keeps the pod from going on.
    fn facts(&self, pod: &Pod) -> Facts {
        let stores = &self.kubelet.stores;
        let mut facts = Facts {
            mount: self.mount_problem(pod),
            ..Facts::default()
        };
        let init = pod.spec.init_containers.iter().flatten();
        for container in init.chain(&pod.spec.containers) {
            let name = &container.name;
            if let Err(why) = environment(pod, container, &self.place, stores) {
                facts.config.insert(name.clone(), why);
            }
            let image = container.image.as_deref().unwrap_or_default();
            let images = self.kubelet.images.as_ref();
            if images.is_some_and(|images| !images.contains(image)) {
                let why = format!("failed to pull image {image:?}: not found");
                facts.image.insert(name.clone(), why);
            }
        }
        facts
    }

    fn mount_problem(&self, pod: &Pod) -> Option<String> {
        let stores = &self.kubelet.stores;
        let volumes = match volumes(pod, stores) {
            Ok(volumes) => volumes,
            Err(why) => return Some(why),
        };
        let namespace = &pod.meta().namespace;
        for name in pod.claims() {
            let claim = super::config::Lookup::claim(stores, namespace, name);
            if claim.is_some_and(|claim| claim.meta().is_terminating()) {
                return Some(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
        }
        let state = self.kubelet.lock();
        let mut used = volumes.iter().filter_map(|volume| match &volume.content {
            Content::Persistent(name) => state
                .attached
                .get(name)
                .filter(|holder| **holder != self.place.uid)
                .map(|_| name),
            Content::Empty | Content::Files(..) => None,
        });
        used.next().map(|name| {
            format!("Multi-Attach error for volume {name:?}: Volume is already used by another pod")
        })
    }

    /// Brings the files of Secrets and ConfigMaps up to date; what is gone stays as it was.
    fn refresh(&mut self, pod: &Pod) {
        let (Some(mounted), Ok(volumes)) = (&self.mounted, volumes(pod, &self.kubelet.stores))
        else {
            return;
        };
        if *mounted == volumes {
            return;
        }
        let mount = self.kubelet.runtime.mount(&self.place, &volumes);
        self.mounted = Some(volumes);
        let pod = pod.meta().key();
        tokio::spawn(async move {
            if let Err(error) = mount.await {
                tracing::warn!(%pod, error, "the volumes are not up to date");
            }
        });
    }

    fn perform(&mut self, pod: &Pod, action: Action) {
        let runtime = &self.kubelet.runtime;
        match action {
            Action::Mount => self.mount(pod),
            Action::Start(run) => self.start(pod, run),
            Action::Terminate(run) => runtime.signal(&self.place, &run, Signal::Term),
            Action::Kill(run) => runtime.signal(&self.place, &run, Signal::Kill),
            Action::Probe(run, kind) => self.probe(pod, run, kind),
            Action::Unmount => {
                let (unmount, happened) = (runtime.unmount(&self.place), self.happened.clone());
                tokio::spawn(async move {
                    unmount.await;
                    let _ = happened.send(Event::Unmounted);
                });
            }
            Action::Tell(kind, reason, note) => self.tell(kind, reason, note),
            // Reported with the status.
            Action::Finish => {}
        }
    }

    fn mount(&mut self, pod: &Pod) {
        let volumes = match volumes(pod, &self.kubelet.stores) {
            Ok(volumes) => volumes,
            Err(why) => return self.happens(Event::Mounted(Err(why))),
        };
        {
            let mut state = self.kubelet.lock();
            for volume in &volumes {
                if let Content::Persistent(name) = &volume.content {
                    state.attached.insert(name.clone(), self.place.uid.clone());
                }
            }
        }
        let mount = self.kubelet.runtime.mount(&self.place, &volumes);
        self.mounted = Some(volumes);
        let happened = self.happened.clone();
        tokio::spawn(async move {
            let _ = happened.send(Event::Mounted(mount.await));
        });
    }

    fn start(&self, pod: &Pod, run: ContainerRun) {
        let Some(container) = container(pod, &run.container) else {
            return;
        };
        let env = match environment(pod, container, &self.place, &self.kubelet.stores) {
            Ok(env) => env,
            Err(why) => return self.happens(Event::Started(run, Err(why))),
        };
        let spec = ContainerSpec {
            pod: self.place.clone(),
            run: run.clone(),
            command: command(container, &env),
            env,
            mounts: mounts(container),
        };
        let (start, happened) = (self.kubelet.runtime.start(spec), self.happened.clone());
        tokio::spawn(async move {
            let _ = happened.send(Event::Started(run, start.await));
        });
    }

    fn await_exit(&self, run: ContainerRun) {
        let exit = self.kubelet.runtime.wait(&self.place, &run);
        let happened = self.happened.clone();
        tokio::spawn(async move {
            let _ = happened.send(Event::Exited(run, exit.await));
        });
    }

    fn probe(&self, pod: &Pod, run: ContainerRun, kind: ProbeKind) {
        let Some((container, probe)) = container(pod, &run.container)
            .and_then(|container| Some((container, probe_of(container, kind)?)))
        else {
            return;
        };
        let check = match check(container, probe) {
            Ok(check) => check,
            Err(why) => return self.happens(Event::Probed(run, kind, Err(why))),
        };
        let limit = probe
            .timeout_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let limit = Duration::from_secs(limit.unwrap_or(PROBE_TIMEOUT).max(1));
        // The kubelet is on the pod's node: a cut does not part them. What can't be asked because the
        // runtime stops a cut pod altogether says nothing about it.
        let asked = self.kubelet.runtime.probe(&self.place, &run, check);
        let (kubelet, place) = (Arc::clone(&self.kubelet), self.place.clone());
        let happened = self.happened.clone();
        tokio::spawn(async move {
            let result = match timeout(limit, asked).await {
                Ok(result) => result,
                Err(_) if kubelet.is_cut(&place) => Ok(()),
                Err(_) => Err("context deadline exceeded".to_owned()),
            };
            let _ = happened.send(Event::Probed(run, kind, result));
        });
    }

    fn happens(&self, event: Event) {
        let _ = self.happened.send(event);
    }

    fn tell(&self, kind: EventType, reason: &'static str, note: String) {
        let about = ObjectRef {
            resource: POD,
            namespace: self.place.namespace.clone(),
            name: self.place.name.clone(),
            uid: self.place.uid.clone(),
        };
        self.kubelet
            .events
            .publish(&about, kind, reason, reason, note);
    }
}

/// Ends a task with its owner.
struct Guard(tokio::task::JoinHandle<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let init = pod.spec.init_containers.iter().flatten();
    init.chain(&pod.spec.containers)
        .find(|container| container.name == name)
}

fn probe_of(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
