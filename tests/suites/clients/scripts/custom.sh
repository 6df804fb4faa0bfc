# A kind of somebody's own, from its definition to its end.
kubectl create namespace sailing
kubectl config set-context --current --namespace=sailing >/dev/null
kubectl get ships
kubectl create -f ships.yaml
kubectl wait --for=condition=Established crd/ships.clients.capstan.dev --timeout=60s
kubectl wait --for=condition=NamesAccepted crd ships.clients.capstan.dev --timeout=60s
kubectl get crd ships.clients.capstan.dev
kubectl get crd ships.clients.capstan.dev -o jsonpath='{.status.storedVersions} {.status.acceptedNames} {.spec.conversion} {.status.conditions[*].reason}'
kubectl api-resources --api-group=clients.capstan.dev
kubectl api-versions | grep clients
# What it is made of is published a moment after the kind is served.
for i in $(seq 120); do kubectl explain ship >/dev/null 2>&1 && break; sleep 0.5; done
kubectl explain ship | grep -P '^(GROUP|KIND|VERSION|DESCRIPTION)|\t<|Ship carries|What the ship'
kubectl explain ship.spec
kubectl explain ships.spec.routes
kubectl explain ships.spec.routes.from
kubectl explain ship --recursive
kubectl explain sh.spec --api-version=clients.capstan.dev/v1beta1
kubectl explain ship.spec.nothing
kubectl get ships
kubectl apply -f fleet.yaml --dry-run=server
kubectl apply -f fleet.yaml
kubectl apply -f fleet.yaml
kubectl get ships
kubectl get vessel anna
kubectl get ships.v1beta1.clients.capstan.dev
kubectl get ships.v1beta1.clients.capstan.dev anna -o jsonpath='{.apiVersion}'
kubectl get ship anna -o yaml
kubectl get ship anna -o yaml --show-managed-fields
kubectl get fleet
kubectl get all
kubectl get ships --field-selector=spec.flag=PA
kubectl get ships --field-selector=spec.crew=12 -o name
kubectl get ships --field-selector=spec.flag!=PA,metadata.name!=anna -o name
kubectl get ships --field-selector=spec.berth=4
kubectl get ships -l class=barge -L owner
kubectl get ships --sort-by=.spec.crew -o name
kubectl get ships -A --field-selector=metadata.namespace=sailing -o name
kubectl get ships -o custom-columns=N:.metadata.name,TO:.spec.routes[*].to,D:.spec.routes[*].days
kubectl describe ship anna
# What a schema says no to.
kubectl create -f - <wrong-flag.json
sed s/XX/PA/ wrong-flag.json | kubectl create -f -
sed -e s/XX/NL/ -e s/50/text/ wrong-flag.json | kubectl create -f -
sed -e s/XX/NL/ -e 's/"crew":50/"crw":50/' wrong-flag.json | kubectl create -f -
sed -e s/XX/NL/ -e 's/"crew":50/"crw":50/' wrong-flag.json | kubectl create --validate=warn -f -
sed -e s/XX/NL/ -e 's/"flag":"XX",//' wrong-flag.json | kubectl apply -f -
kubectl patch ship anna --type=merge -p '{"spec":{"flag":"DK"}}'
kubectl patch ship anna --type=merge -p '{"spec":{"crew":100}}'
kubectl patch ship anna --type=merge -p '{"spec":{"routes":[{"from":"a","to":"b"},{"from":"a","to":"b"}]}}'
kubectl patch ship anna --type=merge -p '{"spec":{"signals":["x","x"]}}'
kubectl patch ship anna -p '{"spec":{"crew":1}}'
kubectl patch ship anna --type=merge -p '{"spec":{"crew":null}}' -o jsonpath='{.spec.crew}'
kubectl patch ship anna --type=json -p '[{"op":"replace","path":"/spec/routes/1/days","value":3}]' -o jsonpath='{.spec.routes[1]} {.metadata.generation}'
kubectl patch ship anna --type=merge -p '{"status":{"phase":"Sailing"}}'
kubectl patch ship anna --type=merge --subresource=status -p '{"status":{"phase":"Sailing","crew":2,"selector":"ship=anna","conditions":[{"type":"Ready","status":"True","reason":"Afloat","message":"it floats","lastTransitionTime":"2026-01-01T00:00:00Z"}]},"spec":{"crew":7}}'
kubectl get ship anna -o jsonpath='{.spec.crew} {.status.phase} {.metadata.generation}'
kubectl get ships
kubectl get ship anna --subresource=status -o jsonpath='{.status.conditions[0].reason}'
kubectl get ship anna --subresource=scale -o yaml
kubectl scale ship anna --replicas=5
kubectl scale ship anna bergen --replicas=200
kubectl get ship anna -o jsonpath='{.spec.crew}'
kubectl wait --for=condition=Ready ship/anna --timeout=10s
kubectl wait --for=jsonpath='{.status.phase}'=Sailing ship/anna --timeout=10s
kubectl wait --for=condition=Ready ship/bergen --timeout=1s
kubectl label ship bergen class=liner --overwrite
kubectl annotate ships --all port=home
EDITOR='sed -i s/crew:.5/crew:\ 6/' kubectl edit ship anna
kubectl get ship anna -o jsonpath='{.spec.crew}'
EDITOR='sed -i s/flag:.NL/flag:\ PA/' kubectl edit ship anna 2>&1 | sed 's/kubectl-edit-[0-9]*/kubectl-edit-x/'
# Server-side apply in lists by key, sets and whole maps.
kubectl apply --server-side --field-manager=pilot -f pilot.json
kubectl get ship dirk -o yaml --show-managed-fields
kubectl apply --server-side --field-manager=mate -f mate.json
kubectl apply --server-side --field-manager=mate -f mate.json --force-conflicts
kubectl get ship dirk -o jsonpath='{.spec.routes} {.spec.signals} {.spec.master} {.spec.crew}'
kubectl apply --server-side --field-manager=pilot -f mate.json --dry-run=server -o jsonpath='{.spec.routes} {.spec.signals}'
sed 's/,"signals":\["alfa"\]//' pilot.json | kubectl apply --server-side --field-manager=pilot -f - -o jsonpath='{.spec.signals}'
sed 's/"crew":3/"crw":3/' pilot.json | kubectl apply --server-side --field-manager=pilot -f -
sed 's/"crew":3/"crew":"three"/' pilot.json | kubectl apply --server-side --field-manager=pilot -f -
sed 's/"crew": 3/"crew": 4/; s/v1"/v1beta1"/' pilot.json | kubectl apply --server-side --field-manager=old -f - 2>&1 | grep -v ^Warning
sed -e 's/tonnage: 80.5/tonnage: 81/' -e 's/days: 2/days: 4/' fleet.yaml > moved.yaml
kubectl diff -f moved.yaml
kubectl diff -f moved.yaml --server-side
kubectl apply -f moved.yaml
kubectl diff -f moved.yaml
kubectl replace -f fleet.yaml
kubectl get ship anna -o jsonpath='{.spec.tonnage}'
kubectl delete ship dirk --cascade=foreground
kubectl delete ships -l owner=b
kubectl get ships -o name
kubectl delete -f fleet.yaml --ignore-not-found
# The definition changes, and goes with what is left.
kubectl apply -f fleet.yaml
kubectl patch crd ships.clients.capstan.dev --type=json -p '[{"op":"replace","path":"/spec/versions/0/served","value":false}]'
kubectl describe crd ships.clients.capstan.dev | grep -A3 'Stored Versions'
kubectl delete crd ships.clients.capstan.dev
kubectl get crd ships.clients.capstan.dev
kubectl delete namespace sailing
