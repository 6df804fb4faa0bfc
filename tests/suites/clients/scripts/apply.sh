# Apply by the client and by the server, what is in between, and diff.
kubectl create namespace applying
kubectl config set-context --current --namespace=applying >/dev/null
kubectl apply -f harbour.yaml
kubectl apply -f harbour.yaml
kubectl diff -f harbour.yaml
sed -e 's/high: "6"/high: "7"/' -e '/low:/d' harbour.yaml > changed.yaml
sed -e 's/crane:1/crane:2/' -e 's/LOAD, value: "1"/LOAD, value: "2"/' -e '/9090/d' yard.yaml > moved.yaml
kubectl diff -f changed.yaml
kubectl diff -f changed.yaml --server-side
kubectl apply -f changed.yaml --dry-run=server
kubectl apply -f changed.yaml --dry-run=client
kubectl get configmap tides -o jsonpath='{.data}'
kubectl apply -f changed.yaml
kubectl apply -f yard.yaml
kubectl apply -f moved.yaml
kubectl get configmap tides -o jsonpath='{.data}'
kubectl get deployment crane -o jsonpath='{.spec.template.spec.containers[*].image} {.spec.template.spec.containers[0].env}'
kubectl get service quay -o jsonpath='{.spec.ports[*].name}'
kubectl apply view-last-applied configmap/tides
kubectl apply view-last-applied -f harbour.yaml -o json | head -c 200
kubectl apply set-last-applied -f harbour.yaml
EDITOR='sed -i s/6/8/' kubectl apply edit-last-applied configmap/tides
kubectl apply view-last-applied configmap/tides
kubectl apply -f harbour.yaml
kubectl apply -f harbour.yaml -o name
kubectl get configmap tides -o json --show-managed-fields | python3 -B managers.py
# Over to the server's side: what the client applied is taken over.
kubectl apply --server-side -f harbour.yaml
kubectl get configmap tides -o json --show-managed-fields | python3 -B managers.py
kubectl apply --server-side -f moved.yaml
kubectl apply --server-side --field-manager=other -f yard.yaml
kubectl apply --server-side --field-manager=other --force-conflicts -f yard.yaml
kubectl get deployment crane -o jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation} {.subresource}{"\n"}{end}'
kubectl apply --server-side -f harbour.yaml
kubectl diff --server-side -f harbour.yaml
kubectl apply --server-side --field-manager=other -f changed.yaml
kubectl apply --server-side --field-manager=other --force-conflicts -f changed.yaml
kubectl apply --server-side -f harbour.yaml --dry-run=server
kubectl get configmap tides -o json --show-managed-fields | python3 -B managers.py
kubectl get service quay -o jsonpath='{.spec.ports[*].name}'
kubectl patch configmap tides --type=merge -p '{"data":{"high":"9","neap":"1"}}'
kubectl apply --server-side -f harbour.yaml
kubectl apply --server-side -f harbour.yaml --force-conflicts
kubectl get configmap tides -o json --show-managed-fields | python3 -B managers.py
kubectl apply --server-side -f fresh.yaml
kubectl apply --server-side -f fresh.yaml --field-manager=''
kubectl apply --server-side -f unknown.yaml 2>&1 | grep -o 'Error from server:.*typed patch object\|field not declared in schema' | sort -u
kubectl apply --server-side -f unknown.yaml --validate=warn 2>&1 | grep -o 'Error from server:.*typed patch object\|field not declared in schema' | sort -u
kubectl apply -f unknown.yaml
kubectl apply -f unknown.yaml --validate=warn
kubectl apply -f missing.yaml
kubectl apply -f kindless.yaml --validate=false
kubectl apply -f generated.yaml
# What is no longer in the files goes.
kubectl apply --prune -l app=harbour --prune-allowlist=core/v1/ConfigMap --prune-allowlist=core/v1/Secret -f fresh.yaml
kubectl get configmaps,secrets
kubectl apply -f fresh.yaml --force --overwrite=false
mkdir kustomized && cp kustomization.yaml kustomized && sed s/fresh/tides/ fresh.yaml > kustomized/map.yaml
kubectl apply -k kustomized
kubectl get configmap k-tides -o jsonpath='{.data} {.metadata.labels}'
kubectl diff -k kustomized
: > nothing.yaml; kubectl apply -f nothing.yaml
kubectl delete -f changed.yaml --ignore-not-found
kubectl delete namespace applying
