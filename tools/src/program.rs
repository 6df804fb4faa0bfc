//! The programs and their recipes: package, link flags, and the command that prints the version.

use crate::pins::{CLUSTER_API, CONFORMANCE, ETCD, KUBERNETES, Module, SYSTEM_AGENT, fnv1a, major_minor};

/// A third-party program that tests run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// The store of a real management plane.
    Etcd,
    /// The API server of a real management plane.
    KubeApiserver,
    /// Garbage collection and namespace deletion of a real management plane.
    KubeControllerManager,
    /// The client every user has; built only where the machine has none.
    Kubectl,
    /// Cluster API's client.
    Clusterctl,
    /// Cluster API's core manager.
    CapiCore,
    /// Cluster API's kubeadm bootstrap manager.
    CapiKubeadmBootstrap,
    /// Cluster API's kubeadm control plane manager.
    CapiKubeadmControlPlane,
    /// Cluster API's development infrastructure manager, used for its clusters in memory.
    CapiDev,
    /// The agent that Rancher puts on machines: one suite of `make test-all`, and a benchmark, run ours beside it.
    SystemAgent,
    /// Kubernetes' own end-to-end tests: one suite of `make test-all` needs them.
    E2eTests,
}

/// How a built program is asked for its version.
#[derive(Debug)]
pub(crate) struct VersionCheck {
    pub(crate) args: &'static [&'static str],
    /// Whether it must exit with 0. The managers have no version flag: they log it first and then fail
    /// over the kubeconfig that is not there.
    pub(crate) must_succeed: bool,
}

impl Program {
    /// Every program that `make test` needs, in the order in which they are built.
    pub const ALL: [Self; 9] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::Clusterctl,
        Self::CapiCore,
        Self::CapiKubeadmBootstrap,
        Self::CapiKubeadmControlPlane,
        Self::CapiDev,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Clusterctl => "clusterctl",
            Self::CapiCore => "capi-core",
            Self::CapiKubeadmBootstrap => "capi-kubeadm-bootstrap",
            Self::CapiKubeadmControlPlane => "capi-kubeadm-control-plane",
            Self::CapiDev => "capi-dev",
            Self::SystemAgent => "system-agent",
            Self::E2eTests => "e2e.test",
        }
    }

    /// The pinned version, with its `v`.
    pub fn version(self) -> &'static str {
        self.module().version
    }

    pub(crate) fn module(self) -> &'static Module {
        match self {
            Self::Etcd => &ETCD,
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => &KUBERNETES,
            Self::Clusterctl
            | Self::CapiCore
            | Self::CapiKubeadmBootstrap
            | Self::CapiKubeadmControlPlane
            | Self::CapiDev => &CLUSTER_API,
            Self::SystemAgent => &SYSTEM_AGENT,
            Self::E2eTests => &CONFORMANCE,
        }
    }

    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Clusterctl => "sigs.k8s.io/cluster-api/cmd/clusterctl",
            Self::CapiCore => "sigs.k8s.io/cluster-api/core",
            Self::CapiKubeadmBootstrap => "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
            Self::CapiKubeadmControlPlane => "sigs.k8s.io/cluster-api/controlplane/kubeadm",
            Self::CapiDev => "sigs.k8s.io/cluster-api/test/infrastructure/docker",
            Self::SystemAgent => "github.com/rancher/system-agent",
            Self::E2eTests => "k8s.io/kubernetes/test/e2e",
        }
    }

    /// Whether it is the test program of its package.
    pub(crate) fn is_test(self) -> bool {
        self == Self::E2eTests
    }

    /// Link flags, with the version stamped in: without it kube-apiserver calls itself v0.0.0, which
    /// Cluster API's managers refuse as too old. etcd has its version in its source.
    pub(crate) fn ldflags(self) -> String {
        let stamped: &[&str] = match self {
            Self::Etcd => &[],
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl | Self::E2eTests => {
                &["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"]
            }
            Self::Clusterctl
            | Self::CapiCore
            | Self::CapiKubeadmBootstrap
            | Self::CapiKubeadmControlPlane
            | Self::CapiDev => &["sigs.k8s.io/cluster-api/version"],
            Self::SystemAgent => {
                return format!(
                    "-s -w -X github.com/rancher/system-agent/pkg/version.Version={}",
                    self.version()
                );
            }
        };
        let version = self.version();
        let (major, minor) = major_minor(version).unwrap_or_default();
        let mut flags = String::from("-s -w");
        for package in stamped {
            for (variable, value) in [
                ("gitVersion", version),
                ("gitMajor", &major.to_string()),
                ("gitMinor", &minor.to_string()),
                ("gitTreeState", "clean"),
            ] {
                flags.push_str(&format!(" -X {package}.{variable}={value}"));
            }
        }
        flags
    }

    pub(crate) fn version_check(self) -> VersionCheck {
        match self {
            Self::Etcd
            | Self::KubeApiserver
            | Self::KubeControllerManager
            | Self::SystemAgent
            | Self::E2eTests => VersionCheck { args: &["--version"], must_succeed: true },
            Self::Kubectl => VersionCheck { args: &["version", "--client"], must_succeed: true },
            Self::Clusterctl => VersionCheck { args: &["version", "--output=short"], must_succeed: true },
            Self::CapiCore | Self::CapiKubeadmBootstrap | Self::CapiKubeadmControlPlane | Self::CapiDev => {
                VersionCheck { args: &["--kubeconfig=/dev/null/none"], must_succeed: false }
            }
        }
    }

    /// Tells apart two builds of one version: other link flags, another dependency.
    pub(crate) fn recipe_digest(self) -> String {
        let module = format!("{:x}", self.module().digest());
        format!("{:016x}", fnv1a(&[self.package(), &self.ldflags(), &module]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_packages_and_digests_are_all_different() {
        for of in [Program::name, Program::package] {
            let mut seen: Vec<_> = Program::ALL.map(of).to_vec();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), Program::ALL.len());
        }
        let mut digests = Program::ALL.map(Program::recipe_digest).to_vec();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), Program::ALL.len());
    }

    #[test]
    fn every_program_is_a_tool_of_its_module() {
        for program in Program::ALL {
            let go_mod = std::fs::read_to_string(program.module().dir().join("go.mod")).expect("go.mod");
            let (tools, _) = go_mod.split_once("require").expect("tools come before requirements");
            assert!(
                tools.split_whitespace().any(|word| word == program.package()),
                "{} is not a tool of {}",
                program.package(),
                program.module().dir().display()
            );
        }
    }

    #[test]
    fn versions_are_stamped() {
        let flags = Program::KubeApiserver.ldflags();
        let version = Program::KubeApiserver.version();
        let (major, minor) = major_minor(version).expect("a version");
        for expected in [
            format!("-X k8s.io/component-base/version.gitVersion={version} "),
            format!("-X k8s.io/component-base/version.gitMajor={major} "),
            format!("-X k8s.io/component-base/version.gitMinor={minor} "),
            format!("-X k8s.io/client-go/pkg/version.gitVersion={version} "),
        ] {
            assert!(flags.contains(&expected), "{flags}");
        }
        let flags = Program::CapiDev.ldflags();
        assert!(flags.contains(&format!("cluster-api/version.gitVersion={} ", Program::CapiDev.version())));
        assert_eq!(Program::Etcd.ldflags(), "-s -w");
    }
}
