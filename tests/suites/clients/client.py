"""Python's kubernetes client: what it gets from a plane, one line for each thing that is looked at."""

import json
import sys
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "python"
GROUP, VERSION, PLURAL = "clients.capstan.dev", "v1", "ships"
DEADLINE = 60


def tell(what, value):
    print(f"{what}: {json.dumps(value, sort_keys=True, default=str)}")


def refused(what, call):
    """How a call is refused."""
    try:
        call()
    except ApiException as error:
        status = json.loads(error.body)
        tell(what, [error.status, error.reason, status["reason"], status["message"], status.get("details")])
    else:
        tell(what, "was not refused")


def eventually(what, look):
    """Calls until there is something."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"waited in vain for {what}")


def core():
    api = client.CoreV1Api()
    api.create_namespace({"metadata": {"name": NAMESPACE}})
    made = api.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="map", labels={"a": "b"}), data={"k": "v"})
    )
    tell("made", [made.metadata.name, made.data, made.metadata.labels, made.kind])
    refused("twice", lambda: api.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "map"}}))
    refused("no name", lambda: api.create_namespaced_config_map(NAMESPACE, {"data": {}}))
    refused("bad name", lambda: api.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "Not_One"}}))
    refused("none", lambda: api.read_namespaced_config_map("none", NAMESPACE))
    made.data["k"] = "w"
    tell("replaced", api.replace_namespaced_config_map("map", NAMESPACE, made).data)
    refused("stale", lambda: api.replace_namespaced_config_map("map", NAMESPACE, made))
    # A dictionary is a strategic merge patch, a list is a JSON patch.
    tell("merged", api.patch_namespaced_config_map("map", NAMESPACE, {"data": {"k": None, "l": "x"}}).data)
    step = [{"op": "add", "path": "/data/m", "value": "y"}]
    tell("patched", api.patch_namespaced_config_map("map", NAMESPACE, step).data)
    dry = api.patch_namespaced_config_map("map", NAMESPACE, {"data": {"l": "z"}}, dry_run="All")
    tell("dry", [dry.data, api.read_namespaced_config_map("map", NAMESPACE).data])
    api.create_namespaced_secret(NAMESPACE, client.V1Secret(metadata={"name": "word"}, string_data={"w": "sesame"}))
    secret = api.read_namespaced_secret("word", NAMESPACE)
    tell("secret", [secret.type, secret.data, secret.string_data])
    for number in range(5):
        api.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"n{number}", "labels": {"n": "yes"}}})
    page = api.list_namespaced_config_map(NAMESPACE, limit=2)
    names, pages = [], 0
    while True:
        pages += 1
        names += [item.metadata.name for item in page.items]
        if not page.metadata._continue:
            break
        page = api.list_namespaced_config_map(NAMESPACE, limit=2, _continue=page.metadata._continue)
    tell("pages", [pages, sorted(names)])
    try:
        api.list_namespaced_config_map(NAMESPACE, limit=2, _continue="nonsense")
    except ApiException as error:
        # The rest of the message is what a parser in Go says.
        tell("bad token", [error.status, json.loads(error.body)["message"].split(":")[0]])
    listed = api.list_namespaced_config_map(NAMESPACE, label_selector="n", field_selector="metadata.name!=n0")
    tell("selected", [item.metadata.name for item in listed.items])
    gone = api.delete_collection_namespaced_config_map(NAMESPACE, label_selector="n")
    tell("collection", [gone.status, len(api.list_namespaced_config_map(NAMESPACE).items)])
    gone = api.delete_namespaced_config_map(
        "map", NAMESPACE, body=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=made.metadata.uid))
    )
    tell("deleted", [gone.status, gone.details.kind, gone.details.name])
    account = api.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "hand"}})
    tell("account", account.metadata.name)
    rights = client.AuthorizationV1Api().create_self_subject_access_review(
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": NAMESPACE}}}
    )
    tell("rights", rights.status.allowed)
    tell("version", client.VersionApi().get_code().major)


def custom():
    with open("ships.json") as file:
        definition = json.load(file)
    definitions = client.ApiextensionsV1Api()
    tell("definition", definitions.create_custom_resource_definition(definition).spec.names.short_names)

    def established():
        seen = definitions.read_custom_resource_definition(f"{PLURAL}.{GROUP}").status.conditions or []
        return any(condition.type == "Established" and condition.status == "True" for condition in seen)

    eventually("the kind to be established", established)
    api = client.CustomObjectsApi()
    place = (GROUP, VERSION, NAMESPACE, PLURAL)
    ship = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Ship", "metadata": {"name": "anna"}, "spec": {"flag": "NL"}}

    def made():
        # Right after it is established, an API server may still say that there is no such thing.
        try:
            return api.create_namespaced_custom_object(*place, ship)
        except ApiException as error:
            if error.status in (404, 429):
                return None
            raise

    tell("ship", eventually("the kind to be served", made)["spec"])
    refused("schema", lambda: api.create_namespaced_custom_object(*place, {**ship, "spec": {"flag": "XX"}, "metadata": {"name": "b"}}))
    refused("rule", lambda: api.patch_namespaced_custom_object(*place, "anna", {"spec": {"flag": "DK"}}))
    tell("patched ship", api.patch_namespaced_custom_object(*place, "anna", {"spec": {"crew": 7}})["spec"])
    status = api.patch_namespaced_custom_object_status(*place, "anna", {"status": {"phase": "Sailing"}})
    tell("status", [status["status"], status["metadata"]["generation"]])
    scale = api.get_namespaced_custom_object_scale(*place, "anna")
    tell("scale", [scale["kind"], scale["spec"]])
    scale["spec"]["replicas"] = 4
    tell("scaled", api.replace_namespaced_custom_object_scale(*place, "anna", scale)["spec"])
    current = api.get_namespaced_custom_object(*place, "anna")
    current["spec"]["berth"] = "east"
    tell("replaced ship", api.replace_namespaced_custom_object(*place, "anna", current)["spec"])
    refused("stale ship", lambda: api.replace_namespaced_custom_object(*place, "anna", current))
    tell("ships", [item["metadata"]["name"] for item in api.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"]])


def server_side():
    """Each content type of a patch, sent as it is."""
    api = client.ApiClient()
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/{PLURAL}/dirk"

    def patch(media, body, query):
        answer = api.call_api(
            path,
            "PATCH",
            query_params=query,
            header_params={"Content-Type": media, "Accept": "application/json"},
            # The client itself makes text only of what is to be JSON.
            body=body if "json" in media else json.dumps(body),
            auth_settings=["BearerToken"],
            response_type="object",
        )
        return answer[0], answer[1]

    ship = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Ship", "metadata": {"name": "dirk"}}
    apply = "application/apply-patch+yaml"
    one = {**ship, "spec": {"flag": "NL", "crew": 3, "routes": [{"from": "a", "to": "b"}]}}
    two = {**ship, "spec": {"flag": "NL", "crew": 4, "routes": [{"from": "b", "to": "c"}]}}
    body, code = patch(apply, one, [("fieldManager", "one")])
    tell("applied", [code, body["spec"]])
    refused("conflict", lambda: patch(apply, two, [("fieldManager", "two")]))
    body, code = patch(apply, two, [("fieldManager", "two"), ("force", "true")])
    managers = [[entry["manager"], entry["operation"], entry["fieldsV1"]] for entry in body["metadata"]["managedFields"]]
    tell("forced", [code, body["spec"], managers])
    refused("no manager", lambda: patch(apply, one, []))
    tell("merge", patch("application/merge-patch+json", {"spec": {"routes": None}}, [])[0]["spec"])
    refused("strategic", lambda: patch("application/strategic-merge-patch+json", {"spec": {}}, []))
    refused("unknown", lambda: patch("application/nonsense", {}, []))
    steps = [{"op": "test", "path": "/spec/crew", "value": 4}, {"op": "remove", "path": "/spec/crew"}]
    tell("json", patch("application/json-patch+json", steps, [])[0]["spec"])


def dynamically():
    plane = dynamic.DynamicClient(client.ApiClient())
    ships = plane.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Ship")
    tell("resource", [ships.name, ships.namespaced, sorted(ships.verbs), sorted(ships.short_names), ships.categories])
    tell("subresources", sorted(ships.subresources))
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Ship", "metadata": {"name": "eva"}, "spec": {"flag": "PA"}}
    tell("dynamic", ships.create(body=body, namespace=NAMESPACE).to_dict()["spec"])
    tell("dynamic get", ships.get(name="eva", namespace=NAMESPACE).metadata.name)
    merge = "application/merge-patch+json"
    patched = ships.patch(body={"spec": {"crew": 9}}, name="eva", namespace=NAMESPACE, content_type=merge)
    tell("dynamic patch", patched.to_dict()["spec"])
    found = ships.get(namespace=NAMESPACE, field_selector="spec.flag=PA")
    tell("dynamic list", [item.metadata.name for item in found.items])
    maps = plane.resources.get(api_version="v1", kind="ConfigMap")
    body = {"metadata": {"generateName": "made-"}, "kind": "ConfigMap", "apiVersion": "v1"}
    tell("generated", maps.create(body=body, namespace=NAMESPACE).metadata.name[:5])
    try:
        ships.delete(name="none", namespace=NAMESPACE)
    except dynamic.exceptions.NotFoundError as error:
        tell("dynamic none", [error.status, json.loads(error.body)["message"]])
    try:
        plane.resources.get(api_version="nothing.test/v1", kind="Nothing")
    except dynamic.exceptions.ResourceNotFoundError:
        tell("dynamic nothing", True)
    tell("dynamic delete", ships.delete(name="eva", namespace=NAMESPACE).status)


def watching():
    api = client.CoreV1Api()
    start = api.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for value in ("1", "2"):
        api.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"w{value}"}, "data": {"v": value}})
    api.patch_namespaced_config_map("w1", NAMESPACE, {"data": {"v": "3"}})
    api.delete_namespaced_config_map("w2", NAMESPACE)
    seen, watcher = [], watch.Watch()
    for event in watcher.stream(
        api.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=DEADLINE
    ):
        seen.append([event["type"], event["object"].metadata.name, event["object"].data])
        if event["type"] == "DELETED":
            watcher.stop()
    tell("watched", seen)
    # One that is told to end does, and says where it was.
    ends = watch.Watch()
    begun = [event["type"] for event in ends.stream(api.list_namespaced_config_map, NAMESPACE, timeout_seconds=1)]
    tell("ended", [sorted(begun), int(ends.resource_version) >= int(start)])
    ships = watch.Watch()
    custom_objects = client.CustomObjectsApi()
    for event in ships.stream(
        custom_objects.list_namespaced_custom_object, GROUP, VERSION, NAMESPACE, PLURAL, timeout_seconds=DEADLINE
    ):
        tell("watched ship", [event["type"], event["object"]["metadata"]["name"]])
        if event["object"]["metadata"]["name"] == "dirk":
            ships.stop()


def done():
    client.ApiextensionsV1Api().delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    api = client.CoreV1Api()
    api.delete_namespace(NAMESPACE)

    def gone():
        names = [item.metadata.name for item in api.list_namespace().items]
        kinds = [item.metadata.name for item in client.ApiextensionsV1Api().list_custom_resource_definition().items]
        return NAMESPACE not in names and f"{PLURAL}.{GROUP}" not in kinds

    tell("gone", eventually("all to be gone", gone))


config.load_kube_config(sys.argv[1])
for part in (core, custom, server_side, dynamically, watching, done):
    part()
