//! The RBAC rules of each group of controllers and of machines on the management plane: least privilege, as data.
//!
//! Rules have one of three scopes:
//!
//! - **everywhere**: a ClusterRole with a ClusterRoleBinding. Objects of Cluster API and of Capstan's providers, and CRDs.
//!   Never Secrets, RBAC objects or certificate signing requests.
//! - **own namespace**: a Role in the namespace of the controllers. Their Leases, and the CA of the hooks.
//! - **each namespace with clusters**: a ClusterRole with a RoleBinding in each namespace that contains clusters.
//!   Secrets, and the RBAC objects of machines.
//!
//! Kubernetes does not let a subject grant permissions that it does not have. The bootstrap provider therefore has the
//! permissions that it grants to machines, in the same namespaces, instead of the verbs `escalate` and `bind`. So has the
//! infrastructure provider those that it grants to machines that dial out.
//!
//! Not allowed here: names of roles, and the manifests that contain them.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::runtime::hooks;

/// The RBAC rules of one group of controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupAccess {
    /// Name of the group, as in `capstan manager --controllers`.
    pub controllers: &'static str,
    /// Rules for all namespaces and for cluster-scoped objects.
    pub everywhere: Vec<PolicyRule>,
    /// Rules for the namespace in which the group runs.
    pub own_namespace: Vec<PolicyRule>,
    /// Rules for each namespace that contains clusters.
    pub cluster_namespaces: Vec<PolicyRule>,
}

const CORE: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const ADDONS: &str = "addons.cluster.x-k8s.io";
const RUNTIME: &str = "runtime.cluster.x-k8s.io";
const AGENT: &str = "agent.capstan.dev";
const RBAC: &str = "rbac.authorization.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";

const IPAM: &str = "ipam.cluster.x-k8s.io";
const REGISTRATION: &str = "admissionregistration.k8s.io";

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const READ: [&str; 3] = ["get", "list", "watch"];

fn rule(group: &str, resources: &[&str], verbs: &[&[&str]]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(&verbs.concat()),
        ..PolicyRule::default()
    }
}

fn named(mut rule: PolicyRule, name: &str) -> PolicyRule {
    rule.resource_names = Some(vec![name.to_owned()]);
    rule
}

/// Rules for kinds that a controller reconciles: the object, its status and its finalizers.
fn looked_after(group: &str, kinds: &[&str], also: &[&str]) -> Vec<PolicyRule> {
    let below = |part: &str| kinds.iter().map(|kind| format!("{kind}/{part}")).collect::<Vec<_>>();
    let (statuses, finalizers) = (below("status"), below("finalizers"));
    let words = |list: &[String], verb: &str| {
        rule(group, &list.iter().map(String::as_str).collect::<Vec<_>>(), &[&[verb]])
    };
    vec![
        rule(group, kinds, &[&READ, &["patch"], also]),
        words(&statuses, "patch"),
        // Where it is enforced, an owner that blocks its own deletion must be given by somebody who could as well.
        words(&finalizers, "update"),
    ]
}

/// Rules for the Lease of leader election.
fn leader(name: &str) -> Vec<PolicyRule> {
    let leases = ["leases"];
    vec![
        rule(COORDINATION, &leases, &[&["create"]]),
        named(rule(COORDINATION, &leases, &[&["get", "update"]]), &format!("capstan-{name}-leader")),
    ]
}

/// Rule for reading CRDs, whose labels name the versions that implement the contract.
fn contract() -> PolicyRule {
    rule(EXTENSIONS, &["customresourcedefinitions"], &[&["get"]])
}

/// Rules to authenticate and authorize clients that scrape metrics.
fn diagnostics() -> [PolicyRule; 2] {
    [
        rule(AUTHENTICATION, &["tokenreviews"], &[&["create"]]),
        rule(AUTHORIZATION, &["subjectaccessreviews"], &[&["create"]]),
    ]
}

/// Rules for a client that scrapes metrics. Users bind them.
pub fn metrics_reader() -> Vec<PolicyRule> {
    vec![PolicyRule {
        non_resource_urls: Some(vec!["/metrics".to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    }]
}

/// How the names of all ServiceAccounts of machines end. A management plane can limit them by that.
pub const MACHINE_ACCOUNTS: &str = ".machine.capstan.dev";

/// Rules of a machine before it has a credential: it requests one in its report.
pub fn enrolling_machine(report: &str) -> Vec<PolicyRule> {
    vec![
        named(rule(AGENT, &["machinereports"], &[&READ]), report),
        named(rule(AGENT, &["machinereports/status"], &[&["get", "update", "patch"]]), report),
    ]
}

/// Rules of a machine that has enrolled: it reads its plan, writes its report and renews its Lease.
pub fn machine(report: &str, plan: &str, lease: &str) -> Vec<PolicyRule> {
    let mut rules = vec![named(rule("", &["secrets"], &[&READ]), plan)];
    rules.extend(enrolling_machine(report));
    rules.push(named(rule(COORDINATION, &["leases"], &[&["get", "update", "patch"]]), lease));
    rules
}

/// Rules of every machine that has a join token: it registers itself, and looks for the answer. It cannot list registrations,
/// so it can read only one whose random name it has chosen.
pub fn joining_host() -> Vec<PolicyRule> {
    vec![rule(INFRASTRUCTURE, &["hostregistrations"], &[&["create", "get"]])]
}

/// Rules of a machine that dials out: it reads its registration and writes its status.
pub fn registered_host(registration: &str) -> Vec<PolicyRule> {
    vec![
        named(rule(INFRASTRUCTURE, &["hostregistrations"], &[&READ]), registration),
        named(
            rule(INFRASTRUCTURE, &["hostregistrations/status"], &[&["get", "update", "patch"]]),
            registration,
        ),
    ]
}

/// The minimal rules of each group of controllers.
pub fn access() -> Vec<GroupAccess> {
    let mut all = vec![core(), infrastructure(), bootstrap(), control_plane(), hooks()];
    for group in &mut all {
        group.everywhere.extend(diagnostics());
    }
    all
}

/// Additional rules of a manager that serves the admission webhooks: the facts that decisions need, its CA, and the CA bundle in
/// the two configurations. `secret` and `configuration` are their names.
pub fn admission(secret: &str, configuration: &str) -> GroupAccess {
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    GroupAccess {
        controllers: "admission",
        everywhere: vec![
            rule(CORE, &["clusterclasses"], &[&["get"]]),
            rule(CORE, &["clusters", "machines", "machinedeployments", "machinepools"], &[&["list"]]),
            rule(IPAM, &["ipaddressclaims"], &[&["get"]]),
            // A control plane may be any provider's.
            rule(CONTROL_PLANE, &["*"], &[&["get"]]),
            contract(),
            named(rule(REGISTRATION, &configurations, &[&["get", "patch"]]), configuration),
        ],
        own_namespace: vec![
            rule("", &["secrets"], &[&["create"]]),
            named(rule("", &["secrets"], &[&["get", "update"]]), secret),
        ],
        cluster_namespaces: Vec::new(),
    }
}

fn core() -> GroupAccess {
    let mut everywhere = looked_after(
        CORE,
        &["clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks"],
        &["create", "delete"],
    );
    everywhere.extend(looked_after(CORE, &["machinepools"], &["create", "delete"]));
    everywhere.extend(looked_after(CORE, &["clusterclasses"], &[]));
    everywhere.extend(looked_after(ADDONS, &["clusterresourcesets"], &[]));
    everywhere.extend([
        rule(ADDONS, &["clusterresourcesetbindings"], &[&READ, &["create", "patch", "delete"]]),
        rule(CORE, &["machinedrainrules"], &[&READ]),
        // Providers' kinds are whatever their users install. Objects of a topology are made of all of them.
        rule(INFRASTRUCTURE, &["*"], &[&READ, &["create", "patch", "delete"]]),
        rule(BOOTSTRAP, &["*"], &[&READ, &["create", "patch", "delete"]]),
        // Requests for remediation are made from templates of any provider.
        rule(CONTROL_PLANE, &["*"], &[&READ, &["create", "patch", "delete"]]),
        contract(),
        rule(RUNTIME, &["extensionconfigs"], &[&READ, &["patch"]]),
        rule(RUNTIME, &["extensionconfigs/status"], &[&["patch"]]),
        // What has happened to Machines and MachineSets.
        rule("", &["events"], &[&["get", "create", "patch"]]),
        // An extension may be meant for some namespaces, by their labels.
        rule("", &["namespaces"], &[&["get"]]),
        hook_caller(),
    ]);
    GroupAccess {
        controllers: "core",
        everywhere,
        own_namespace: leader("core"),
        cluster_namespaces: vec![
            // Reads kubeconfigs; makes one where there is no control plane provider. Those of ClusterResourceSets get them as owners.
            rule("", &["secrets"], &[&READ, &["create", "patch"]]),
            rule("", &["configmaps"], &[&READ, &["patch"]]),
        ],
    }
}

/// Rule for calls of Capstan's runtime hooks.
fn hook_caller() -> PolicyRule {
    PolicyRule {
        non_resource_urls: Some(vec![format!("/{}/*", hooks::GROUP)]),
        verbs: vec!["post".to_owned()],
        ..PolicyRule::default()
    }
}

fn infrastructure() -> GroupAccess {
    let mut everywhere = looked_after(INFRASTRUCTURE, &["hostpools", "hostclusters", "hostmachines"], &[]);
    everywhere.extend(looked_after(INFRASTRUCTURE, &["hosts"], &["create", "delete"]));
    everywhere.extend(looked_after(INFRASTRUCTURE, &["hostregistrations"], &["delete"]));
    everywhere.extend([
        rule(CORE, &["clusters", "machines"], &[&READ]),
        // Which hosts a control plane may claim stands in its template. The control plane may be any provider's.
        rule(INFRASTRUCTURE, &["hostmachinetemplates"], &[&READ]),
        rule(INFRASTRUCTURE, &["hostmachinetemplates/status"], &[&["patch"]]),
        rule(CONTROL_PLANE, &["*"], &[&READ]),
        contract(),
        // What has happened to hosts and to the machines that have them.
        rule("", &["events"], &[&["get", "create", "patch"]]),
    ]);
    let made = ["get", "create", "patch"];
    GroupAccess {
        controllers: "infrastructure",
        everywhere,
        own_namespace: leader("infrastructure"),
        // Bootstrap data, what gets into hosts, join tokens, and the key for instructions.
        cluster_namespaces: vec![
            rule("", &["secrets"], &[&["get"]]),
            // Machines that dial out are given credentials of their own, with few rights.
            rule("", &["serviceaccounts"], &[&made]),
            rule("", &["serviceaccounts/token"], &[&["create"]]),
            rule(RBAC, &["roles", "rolebindings"], &[&made]),
            // They are given this; whoever gives it must hold it.
            rule(INFRASTRUCTURE, &["hostregistrations/status"], &[&["get", "update", "patch"]]),
        ],
    }
}

/// Rule for reading the namespace whose UID shows whether a cluster was created here or moved here.
fn plane_name() -> PolicyRule {
    named(rule("", &["namespaces"], &[&["get"]]), "kube-system")
}

fn bootstrap() -> GroupAccess {
    let mut everywhere = looked_after(BOOTSTRAP, &["capstanconfigs"], &[]);
    everywhere.extend([
        rule(CORE, &["clusters", "machines"], &[&READ]),
        // Whether its agent is connected.
        rule(CORE, &["machines/status"], &[&["patch"]]),
        rule(AGENT, &["machinereports"], &[&READ, &["create", "patch", "delete"]]),
        plane_name(),
        // Who has enrolled, and who was refused.
        rule("", &["events"], &[&["get", "create", "patch"]]),
    ]);
    let made = ["get", "create", "patch", "delete"];
    GroupAccess {
        controllers: "bootstrap",
        everywhere,
        own_namespace: leader("bootstrap"),
        cluster_namespaces: vec![
            rule("", &["secrets"], &[&READ, &["create", "update", "patch", "delete"]]),
            // Watched, too: a machine whose account was deleted must enrol again.
            rule("", &["serviceaccounts"], &[&made, &["list", "watch"]]),
            rule("", &["serviceaccounts/token"], &[&["create"]]),
            // Watched, too: when rights of a machine are widened, the manager takes them back at once.
            rule(RBAC, &["roles", "rolebindings"], &[&made, &["list", "watch"]]),
            // Watched, too: heartbeats tell which machines are connected.
            rule(COORDINATION, &["leases"], &[&made, &["update", "list", "watch"]]),
            // Machines are given this; whoever gives it must hold it.
            rule(AGENT, &["machinereports/status"], &[&["get", "update", "patch"]]),
        ],
    }
}

fn control_plane() -> GroupAccess {
    let mut everywhere = looked_after(CONTROL_PLANE, &["capstancontrolplanes"], &[]);
    everywhere.extend([
        rule(CORE, &["clusters", "machinedeployments", "machinedrainrules"], &[&READ]),
        rule(CORE, &["machines"], &[&READ, &["create", "patch", "delete"]]),
        rule(CORE, &["machines/status"], &[&["patch"]]),
        rule(BOOTSTRAP, &["capstanconfigs"], &[&READ, &["create", "patch", "delete"]]),
        rule(BOOTSTRAP, &["capstanconfigs/status"], &[&["patch"]]),
        rule(AGENT, &["machinereports"], &[&READ]),
        // How healing goes on.
        rule("", &["events"], &[&["get", "create", "patch"]]),
        // Machines of any infrastructure provider are made from its templates.
        rule(INFRASTRUCTURE, &["*"], &[&READ, &["create", "patch", "delete"]]),
        contract(),
        plane_name(),
    ]);
    GroupAccess {
        controllers: "control-plane",
        everywhere,
        own_namespace: leader("control-plane"),
        cluster_namespaces: vec![
            rule("", &["secrets"], &[&READ, &["create", "update", "patch", "delete"]]),
            // The signs of life of agents.
            rule(COORDINATION, &["leases"], &[&["list"]]),
        ],
    }
}

fn hooks() -> GroupAccess {
    let mut own_namespace = leader("hooks");
    own_namespace.extend([
        rule("", &["secrets"], &[&["create"]]),
        named(rule("", &["secrets"], &[&["get", "update"]]), "capstan-hooks"),
    ]);
    GroupAccess {
        controllers: "hooks",
        everywhere: vec![
            rule(CORE, &["machines", "machinesets", "machinedeployments"], &[&["get"]]),
            rule(BOOTSTRAP, &["capstanconfigs"], &[&["get"]]),
            rule(AGENT, &["machinereports"], &[&["get"]]),
            rule(RUNTIME, &["extensionconfigs"], &[&READ, &["create", "patch"]]),
        ],
        own_namespace,
        // No Secrets: which plan a machine has is in the status of its CapstanConfig.
        cluster_namespaces: vec![rule("", &["events"], &[&["get", "create", "patch"]])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(rule: &PolicyRule, resources: &[&str]) -> bool {
        let all = rule.resources.iter().flatten();
        let group = rule.api_groups.iter().flatten().any(|group| ["", RBAC, "*"].contains(&group.as_str()));
        group && all.clone().any(|resource| resource == "*" || resources.contains(&resource.as_str()))
    }

    #[test]
    fn nobody_reads_or_writes_secrets_or_rights_everywhere() {
        let kept = ["secrets", "serviceaccounts", "serviceaccounts/token", "roles", "rolebindings", "pods"];
        for group in access() {
            let rules = group.everywhere.iter().filter(|rule| touches(rule, &kept));
            assert_eq!(rules.count(), 0, "{}", group.controllers);
        }
    }

    #[test]
    fn the_hooks_read_no_secrets_of_clusters() {
        let hooks = access().into_iter().find(|group| group.controllers == "hooks").expect("the hooks");
        let rules = hooks.everywhere.iter().chain(&hooks.cluster_namespaces);
        let rules: Vec<&PolicyRule> = rules.filter(|rule| touches(rule, &["secrets"])).collect();
        assert!(rules.is_empty(), "plan-signing keys and CA keys are there: {rules:?}");
        for rule in hooks.own_namespace.iter().filter(|rule| touches(rule, &["secrets"])) {
            let names = rule.resource_names.iter().flatten();
            assert!(rule.verbs == ["create"] || names.eq(["capstan-hooks"]), "{rule:?}");
        }
    }

    #[test]
    fn nobody_may_give_away_what_they_do_not_hold_or_do_everything() {
        for group in access() {
            let rules = group.everywhere.iter().chain(&group.own_namespace).chain(&group.cluster_namespaces);
            for rule in rules {
                let is_kept =
                    |verb: &String| ["*", "escalate", "bind", "impersonate"].contains(&verb.as_str());
                assert!(!rule.verbs.iter().any(is_kept), "{}: {rule:?}", group.controllers);
                assert!(!rule.api_groups.iter().flatten().any(|name| name == "*"), "{rule:?}");
            }
        }
    }

    #[test]
    fn nobody_asks_for_certificates_or_approves_them() {
        for group in access() {
            let mut rules =
                group.everywhere.iter().chain(&group.own_namespace).chain(&group.cluster_namespaces);
            let is_one = |rule: &PolicyRule| {
                rule.api_groups.iter().flatten().any(|name| name == "certificates.k8s.io")
            };
            assert!(!rules.any(is_one), "{}: who approves can become anyone", group.controllers);
        }
    }

    #[test]
    fn a_scraper_reads_metrics_and_nothing_else() {
        for rule in metrics_reader() {
            assert_eq!(rule.verbs, ["get"]);
            assert_eq!(rule.non_resource_urls.as_deref(), Some(&["/metrics".to_owned()][..]));
            assert_eq!((rule.resources, rule.api_groups), (None, None));
        }
    }

    #[test]
    fn every_group_may_ask_who_reads_its_metrics() {
        for group in access() {
            for resource in ["tokenreviews", "subjectaccessreviews"] {
                let may = |rule: &&PolicyRule| rule.resources.iter().flatten().any(|name| name == resource);
                let verbs: Vec<_> = group.everywhere.iter().filter(may).map(|rule| &rule.verbs).collect();
                assert_eq!(verbs, [&["create"]], "{}: {resource}", group.controllers);
            }
        }
    }

    #[test]
    fn in_its_own_namespace_a_group_changes_only_what_is_its_own() {
        for group in access() {
            for rule in &group.own_namespace {
                let is_named = rule.resource_names.is_some();
                assert!(is_named || rule.verbs == ["create"], "{}: {rule:?}", group.controllers);
            }
        }
    }
}
