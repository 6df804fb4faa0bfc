# Every way to delete.
kubectl create namespace removing
kubectl config set-context --current --namespace=removing >/dev/null
kubectl create -f harbour.yaml
kubectl delete configmap tides --dry-run=server
kubectl delete configmap tides --dry-run=client
kubectl delete configmap tides secret keys
kubectl delete configmap/tides secret/keys
kubectl delete configmap tides
kubectl delete configmap tides --ignore-not-found
for i in 1 2 3 4; do kubectl create configmap n$i -o name; kubectl label configmap n$i half=$((i % 2)); done
kubectl delete configmaps -l half=1
kubectl delete configmaps --field-selector=metadata.name=n2
kubectl delete configmaps --all
kubectl delete configmaps
kubectl create -f harbour.yaml
kubectl delete -f harbour.yaml --now
kubectl create configmap raw
kubectl delete --raw /api/v1/namespaces/removing/configmaps/raw | grep -o '"status":"[A-Za-z]*"'
# A family: an owner and what it owns, once in each way.
sh family.sh background
kubectl delete configmap owner --cascade=background
kubectl wait --for=delete configmap/owned --timeout=60s
kubectl get configmaps -o name
sh family.sh foreground
kubectl delete configmap owner --cascade=foreground
kubectl get configmaps -o name
sh family.sh orphan
kubectl delete configmap owner --cascade=orphan
kubectl get configmap owned -o jsonpath='{.metadata.name} {.metadata.ownerReferences}'
kubectl delete configmap owned
sh family.sh foreground
kubectl patch configmap owned --type=merge -p '{"metadata":{"finalizers":["clients.capstan.dev/wait"]}}'
kubectl delete configmap owner --cascade=foreground --wait=false
kubectl wait --for=jsonpath='{.metadata.deletionTimestamp}' configmap/owned --timeout=60s
kubectl get configmap owner -o jsonpath='{.metadata.finalizers}'
kubectl delete configmap owned --timeout=1s
kubectl patch configmap owned --type=merge -p '{"metadata":{"finalizers":null}}'
kubectl wait --for=delete configmap/owner --timeout=60s
# A finalizer holds it.
kubectl create configmap held
kubectl patch configmap held --type=merge -p '{"metadata":{"finalizers":["clients.capstan.dev/wait"]}}'
kubectl patch configmap held --type=merge -p '{"metadata":{"finalizers":["clients.capstan.dev/wait","other"]}}'
kubectl delete configmap held --wait=false
kubectl delete configmap held --wait=false
kubectl patch configmap held --type=merge -p '{"metadata":{"finalizers":["clients.capstan.dev/wait","clients.capstan.dev/more"]}}'
kubectl get configmap held -o jsonpath='{.metadata.deletionGracePeriodSeconds} {.metadata.finalizers}'
kubectl patch configmap held --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'
kubectl get configmap held
kubectl create deployment web --image=example.test/web:1
kubectl delete deployment web --cascade=foreground --timeout=60s
kubectl create -f pod.yaml
kubectl delete pod pilot --grace-period=0 --force
kubectl get pods
kubectl create configmap left
kubectl delete namespace default
kubectl delete namespace removing
kubectl get namespace removing
kubectl create configmap late -n removing
