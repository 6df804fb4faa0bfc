//! The kinds that requests are about.

use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "tried";
pub(crate) const WIDGETS: &str = "/apis/trial.capstan.dev/v1/namespaces/tried/widgets";

/// A kind, and what its objects are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrialKind {
    pub(crate) path: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) name: &'static str,
    /// Fields with values that are good, and values that are not.
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
    pub(crate) subresources: &'static [&'static str],
    /// What an object has in any case, as JSON.
    pub(crate) base: &'static str,
    /// Fields that a kube-apiserver fills in and judges because somebody will run what they say. Nobody does here.
    pub(crate) left_alone: &'static [&'static str],
}

impl TrialKind {
    /// Whether nothing but the schema says what is right.
    pub(crate) fn is_only_stored(&self) -> bool {
        !self.left_alone.is_empty()
    }
}

/// A custom kind with every part of a schema, and built-in ones.
pub(crate) const KINDS: &[TrialKind] = &[
    TrialKind {
        path: WIDGETS,
        api_version: "trial.capstan.dev/v1",
        name: "Widget",
        fields: WIDGET,
        subresources: &["status", "scale"],
        // Without it there would be no defaults in it.
        base: r#"{"spec": {}}"#,
        ..PLAIN
    },
    TrialKind {
        path: "/api/v1/namespaces/tried/configmaps",
        api_version: "v1",
        name: "ConfigMap",
        fields: CONFIG_MAP,
        ..PLAIN
    },
    // The custom kind gets more sequences: it has most to go wrong.
    TrialKind {
        path: WIDGETS,
        api_version: "trial.capstan.dev/v1",
        name: "Widget",
        fields: WIDGET,
        subresources: &["status"],
        ..PLAIN
    },
    TrialKind {
        path: "/api/v1/namespaces/tried/secrets",
        api_version: "v1",
        name: "Secret",
        fields: SECRET,
        ..PLAIN
    },
    TrialKind {
        path: "/apis/apps/v1/namespaces/tried/deployments",
        api_version: "apps/v1",
        name: "Deployment",
        fields: DEPLOYMENT,
        subresources: &["status", "scale"],
        base: DEPLOYED,
        left_alone: &[
            "progressDeadlineSeconds",
            "revisionHistoryLimit",
            "strategy",
            "dnsPolicy",
            "restartPolicy",
            "schedulerName",
            "securityContext",
            "terminationGracePeriodSeconds",
            "imagePullPolicy",
            "resources",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "lastTransitionTime",
            "lastUpdateTime",
            "emptyDir",
        ],
    },
    TrialKind {
        path: "/api/v1/namespaces/tried/serviceaccounts",
        api_version: "v1",
        name: "ServiceAccount",
        fields: SERVICE_ACCOUNT,
        ..PLAIN
    },
    TrialKind {
        path: "/apis/coordination.k8s.io/v1/namespaces/tried/leases",
        api_version: "coordination.k8s.io/v1",
        name: "Lease",
        fields: LEASE,
        ..PLAIN
    },
    TrialKind {
        path: "/apis/rbac.authorization.k8s.io/v1/namespaces/tried/roles",
        api_version: "rbac.authorization.k8s.io/v1",
        name: "Role",
        fields: ROLE,
        base: r#"{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}"#,
        ..PLAIN
    },
    TrialKind {
        path: "/api/v1/namespaces/tried/limitranges",
        api_version: "v1",
        name: "LimitRange",
        fields: LIMIT_RANGE,
        // Not without items: a kube-apiserver shows such a list as null.
        base: r#"{"spec": {"limits": [{"type": "Pod"}]}}"#,
        ..PLAIN
    },
];

const PLAIN: TrialKind = TrialKind {
    path: "",
    api_version: "",
    name: "",
    fields: &[],
    subresources: &[],
    base: "{}",
    left_alone: &[],
};

/// By path, as JSON.
const WIDGET: &[(&str, &[&str])] = &[
    ("spec.size", &["0", "3", "5", "6", "10", "11", "-1", "\"3\"", "2.0", "2.5", "null"]),
    ("spec.ratio", &["0.5", "1", "1e3", "\"x\"", "null"]),
    ("spec.title", &["\"\"", "\"harbour\"", "\"bad\"", "\"Far too long\"", "\"A\"", "7", "null"]),
    ("spec.mode", &["\"Slow\"", "\"Fast\"", "\"None\"", "null"]),
    ("spec.when", &["\"2026-01-01T00:00:00Z\"", "\"2026-01-01T00:00:00.5+02:00\"", "\"yesterday\""]),
    ("spec.port", &["80", "\"http\"", "\"80%\"", "1.5", "true"]),
    ("spec.maybe", &["\"m\"", "null", "1"]),
    (
        "spec.tags",
        &["[]", "[\"a\"]", "[\"a\",\"b\"]", "[\"b\",\"c\",\"d\"]", "[\"a\",\"a\"]", "[1]", "{}", "null"],
    ),
    (
        "spec.parts",
        &[
            "[]",
            "[{\"name\":\"one\"}]",
            "[{\"name\":\"one\",\"count\":2},{\"name\":\"two\",\"protocol\":\"UDP\"}]",
            "[{\"name\":\"two\",\"protocol\":\"TCP\",\"count\":1}]",
            "[{\"name\":\"one\"},{\"name\":\"one\",\"protocol\":\"TCP\"}]",
            "[{\"count\":1}]",
            "[{\"name\":\"one\",\"more\":true}]",
            "[null]",
            "null",
        ],
    ),
    ("spec.steps", &["[\"x\",\"y\"]", "[\"y\"]", "[]", "[null]"]),
    ("spec.limits", &["{}", "{\"cpu\":1}", "{\"cpu\":\"2\",\"memory\":\"1Gi\"}", "{\"cpu\":[]}", "null"]),
    ("spec.free", &["{}", "{\"any\":{\"thing\":[1,null]}}", "{\"other\":1}", "\"text\""]),
    (
        "spec.nested",
        &[
            "{}",
            "{\"a\":\"x\"}",
            "{\"b\":{\"c\":1}}",
            "{\"a\":\"y\",\"b\":{\"c\":2}}",
            "{\"b\":{\"c\":\"no\"}}",
        ],
    ),
    ("spec.whole", &["{\"a\":\"x\"}", "{\"b\":\"y\"}", "{\"a\":\"x\",\"b\":\"y\"}", "null"]),
    ("spec.fixed", &["\"one\"", "\"two\""]),
    ("spec.unknown", &["1"]),
    ("spec", &["{}", "[]"]),
    ("status.ready", &["true", "false", "\"yes\""]),
    ("status.count", &["1", "2", "1.5"]),
    ("status.unknown", &["1"]),
    (
        "metadata.labels",
        &[
            "{\"a\":\"1\"}",
            "{\"a\":\"2\",\"b\":\"\"}",
            "{\"a\":null}",
            "{\"-\":\"x\"}",
            "{\"a\":\"b c\"}",
            "null",
            "{\"a\":1}",
        ],
    ),
    (
        "metadata.annotations",
        &["{\"note\":\"x\"}", "{\"note\":\"y\",\"other\":\"\"}", "{\"Not/a/key\":\"x\"}", "null"],
    ),
    ("metadata.finalizers", &["[\"trial.capstan.dev/wait\"]", "[]", "[\"plain\"]", "null"]),
    ("metadata.generateName", &["\"made-\""]),
    (
        "metadata.ownerReferences",
        &[
            // Of a kind that nobody knows, so nobody can tell that it is not there.
            "[{\"apiVersion\":\"nowhere.capstan.dev/v1\",\"kind\":\"Ghost\",\"name\":\"o\",\"uid\":\"u\"}]",
            "[{\"kind\":\"ConfigMap\"}]",
        ],
    ),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\"", "\"\""]),
    ("metadata.uid", &["\"another\""]),
    ("metadata.name", &["\"other\"", "\"No_Name\""]),
    ("metadata.namespace", &["\"tried\"", "\"elsewhere\""]),
    ("metadata.unknown", &["1"]),
    ("metadata.generation", &["7"]),
    ("unknown", &["1"]),
];

const CONFIG_MAP: &[(&str, &[&str])] = &[
    (
        "data",
        &[
            "{\"a\":\"1\"}",
            "{\"a\":\"2\",\"b\":\"x\"}",
            "{\"b\":null}",
            "{\"not ok\":\"x\"}",
            "{\"a\":1}",
            "null",
        ],
    ),
    ("binaryData", &["{\"c\":\"AAEC\"}", "{\"a\":\"AAEC\"}", "{\"c\":\"?\"}"]),
    ("immutable", &["true", "false", "null", "\"yes\""]),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"a\":\"2\",\"b\":\"\"}", "{\"a\":null}", "{\"a\":\"b c\"}"]),
    ("metadata.annotations", &["{\"note\":\"x\"}", "{\"other\":\"\"}"]),
    ("metadata.finalizers", &["[\"trial.capstan.dev/wait\"]", "[]"]),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\"", "\"\""]),
    ("metadata.namespace", &["\"tried\"", "\"elsewhere\""]),
    ("unknown", &["1"]),
];

const SECRET: &[(&str, &[&str])] = &[
    ("data", &["{\"a\":\"MQ==\"}", "{\"a\":\"Mg==\",\"b\":\"\"}", "{\"a\":\"?\"}", "null"]),
    ("stringData", &["{\"a\":\"1\"}", "{\"b\":\"x\"}", "{}"]),
    ("type", &["\"Opaque\"", "\"kubernetes.io/tls\"", "\"own/kind\"", "\"\""]),
    ("immutable", &["true", "false"]),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"b\":\"\"}"]),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\""]),
    ("unknown", &["1"]),
];

const DEPLOYED: &str = r#"{"spec": {
    "selector": {"matchLabels": {"app": "x"}},
    "template": {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1"}]}
    }
}}"#;

/// Lists that strategic merge patches and appliers merge by keys, with the words by which they do more.
const DEPLOYMENT: &[(&str, &[&str])] = &[
    ("spec.replicas", &["0", "3", "null", "\"x\""]),
    ("spec.paused", &["true", "null"]),
    ("spec.template.metadata.annotations", &["{\"a\":\"1\"}", "{\"a\":null}", "{\"b\":\"2\"}"]),
    (
        "spec.template.spec.containers",
        &[
            r#"[{"name":"a","image":"i:2"}]"#,
            r#"[{"name":"b","env":[{"name":"X","value":"1"},{"name":"Y","value":"2"}]}]"#,
            r#"[{"name":"b","env":[{"name":"X","$patch":"delete"}]}]"#,
            r#"[{"name":"a","ports":[{"containerPort":80,"protocol":"TCP"}]}]"#,
            r#"[{"name":"a","ports":[{"containerPort":80,"protocol":"TCP","name":"http"},{"containerPort":81,"protocol":"UDP"}]}]"#,
            r#"[{"name":"a","args":["x","y"],"image":"i:1"}]"#,
            r#"[{"name":"a","args":null,"command":["c"]}]"#,
            r#"[{"$patch":"delete","name":"b"}]"#,
            r#"[{"name":"c","image":"i:3"}]"#,
            r#"[{"name":"a","unknown":1}]"#,
        ],
    ),
    (
        "spec.template.spec.$setElementOrder/containers",
        &[r#"[{"name":"b"},{"name":"a"}]"#, r#"[{"name":"a"},{"name":"b"}]"#],
    ),
    (
        "spec.template.spec.volumes",
        &[
            r#"[{"name":"v","emptyDir":{}}]"#,
            r#"[{"name":"v","$retainKeys":["name","configMap"],"configMap":{"name":"m","defaultMode":420}}]"#,
            r#"[{"name":"w","emptyDir":{"medium":"Memory"}}]"#,
            "null",
        ],
    ),
    (
        "spec.template.spec.tolerations",
        &[
            r#"[{"key":"a","operator":"Exists"}]"#,
            r#"[{"key":"b","operator":"Exists","effect":"NoSchedule"}]"#,
            "[]",
        ],
    ),
    (
        "spec.template.spec.imagePullSecrets",
        &[r#"[{"name":"p"}]"#, r#"[{"name":"q"}]"#, r#"[{"name":"p","$patch":"delete"}]"#],
    ),
    (
        "spec.template.spec.nodeSelector",
        &["{\"a\":\"1\"}", "{\"b\":\"2\"}", "{\"$patch\":\"replace\"}", "null"],
    ),
    (
        "spec.template.spec.hostAliases",
        &[r#"[{"ip":"10.0.0.1","hostnames":["h"]}]"#, r#"[{"ip":"10.0.0.2","hostnames":["i","j"]}]"#],
    ),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"a\":\"2\",\"b\":\"\"}", "{\"a\":null}"]),
    ("metadata.finalizers", &["[\"trial.capstan.dev/wait\"]", "[\"trial.capstan.dev/other\"]", "[]"]),
    ("metadata.$deleteFromPrimitiveList/finalizers", &["[\"trial.capstan.dev/wait\"]"]),
    ("status.observedGeneration", &["1", "2"]),
    (
        "status.conditions",
        &[
            r#"[{"type":"Available","status":"True"}]"#,
            r#"[{"type":"Progressing","status":"False","reason":"x"}]"#,
            r#"[{"type":"Available","status":"True","$patch":"delete"}]"#,
        ],
    ),
];

const SERVICE_ACCOUNT: &[(&str, &[&str])] = &[
    (
        "secrets",
        &[
            r#"[{"name":"a"}]"#,
            r#"[{"name":"b"},{"name":"c"}]"#,
            r#"[{"name":"a","$patch":"delete"}]"#,
            "[]",
            "null",
        ],
    ),
    ("imagePullSecrets", &[r#"[{"name":"a"}]"#, r#"[{"name":"b"}]"#, "{}"]),
    ("automountServiceAccountToken", &["true", "false", "null", "1"]),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"b\":\"\"}"]),
    ("metadata.annotations", &["{\"note\":\"x\"}", "{\"$patch\":\"delete\"}"]),
    ("unknown", &["1"]),
];

const LEASE: &[(&str, &[&str])] = &[
    ("spec.holderIdentity", &["\"a\"", "\"b\"", "null", "1"]),
    ("spec.leaseDurationSeconds", &["15", "0", "-1", "\"x\""]),
    ("spec.renewTime", &["\"2026-01-01T00:00:00.000000Z\"", "\"2026-01-01T00:00:00Z\"", "null"]),
    ("spec.acquireTime", &["\"2026-01-01T00:00:00.123456Z\"", "\"2026-01-01T00:00:00.5+01:00\""]),
    ("spec.leaseTransitions", &["0", "1", "-1"]),
    ("spec", &["{}", "null"]),
    ("metadata.labels", &["{\"a\":\"1\"}"]),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\""]),
];

/// One thing is wrong at a time: the order of several is that of a map of Go.
const LIMIT_RANGE: &[(&str, &[&str])] = &[
    (
        "spec.limits",
        &[
            r#"[{"type":"Container","max":{"cpu":"2"}}]"#,
            r#"[{"type":"Container","min":{"memory":"1024Mi"},"default":{"memory":"2Gi"}}]"#,
            r#"[{"type":"Container","default":{"cpu":"0.5"},"maxLimitRequestRatio":{"cpu":3}}]"#,
            r#"[{"type":"Pod","max":{"cpu":"4","memory":"1e3"}},{"type":"Container","min":{"cpu":"100m"}}]"#,
            r#"[{"type":"Pod","max":{"cpu":"1"},"min":{"cpu":"1500m"}}]"#,
            r#"[{"type":"Pod","default":{"cpu":"1"}}]"#,
            r#"[{"type":"Pod"},{"type":"Pod"}]"#,
            r#"[{"type":"Container","default":{"cpu":"1"},"defaultRequest":{"cpu":"2"}}]"#,
            r#"[{"type":"Container","maxLimitRequestRatio":{"cpu":"500m"}}]"#,
            r#"[{"type":"Node"}]"#,
        ],
    ),
    ("metadata.labels", &["{\"a\":\"1\"}"]),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\""]),
    ("unknown", &["1"]),
];

const ROLE: &[(&str, &[&str])] = &[
    (
        "rules",
        &[
            r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]"#,
            r#"[{"apiGroups":["a"],"resources":["b"],"resourceNames":["c"],"verbs":["*"]},{"apiGroups":[""],"resources":["x"],"verbs":["list"]}]"#,
            r#"[{"apiGroups":[""],"resources":["pods"]}]"#,
            r#"[{"verbs":["get"]}]"#,
            r#"[{"nonResourceURLs":["/x"],"verbs":["get"]}]"#,
            "{}",
        ],
    ),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"a\":null}"]),
    ("metadata.name", &["\"x:y\""]),
    ("unknown", &["1"]),
];

/// A kind with every part of a schema.
pub(crate) fn definition() -> Value {
    let text = |most: u64| json!({"type": "string", "maxLength": most});
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10, "default": 3},
            "ratio": {"type": "number"},
            "title": {"type": "string", "maxLength": 8, "pattern": "^[a-z-]*$"},
            "mode": {"type": "string", "enum": ["Slow", "Fast"], "default": "Slow"},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "maxLength": 8, "nullable": true, "default": "d"},
            "tags": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": text(8)},
            "parts": {
                "type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {
                        "name": text(8), "protocol": {"type": "string", "default": "TCP"}, "count": {"type": "integer"},
                    },
                },
            },
            "steps": {"type": "array", "items": text(8), "maxItems": 4},
            "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "nested": {
                "type": "object",
                "properties": {"a": text(8), "b": {"type": "object", "properties": {"c": {"type": "integer"}}}},
            },
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text(8), "b": text(8)}},
            "fixed": {
                "type": "string", "maxLength": 8,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed cannot change"}],
            },
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.title) || self.title != 'bad'", "message": "no bad titles", "fieldPath": ".title"},
            {
                "rule": "self.size <= 5 || self.mode == 'Fast'", "reason": "FieldValueForbidden",
                "messageExpression": "self.mode == 'Slow' ? 'too big to be Slow' : 'too big'",
            },
        ],
    });
    let status = json!({
        "type": "object", "properties": {"ready": {"type": "boolean"}, "count": {"type": "integer"}},
    });
    json!({
        "metadata": {"name": "widgets.trial.capstan.dev"},
        "spec": {
            "group": "trial.capstan.dev", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count"},
                },
                "selectableFields": [{"jsonPath": ".spec.mode"}],
            }],
        },
    })
}
